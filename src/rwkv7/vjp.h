// The primitives of RWKV-7's block (rwkv7/islands.h) in plain form and the vector-Jacobian product of each:
// the specification of the backward. How products add gradients: ops/vjp.h.
#pragma once

#include "ops/matrix.h"
#include "ops/parameters.h"

namespace fulmar {

// Projected7 in host memory, or the gradient of one; all [rows, C].
template <class Number>
struct HostProjected7 {
  Matrix<Number> r, k, v, g;
  Matrix<Number> u;  // decay before its activation: w = exp(-exp(-0.5) * sigmoid(u))
  Matrix<Number> kk, alpha;
};

// Weights of the primitives, each [1, C].
template <class Number>
struct HeadVectors7 {
  int64_t n_head = 0;
  Parameter<Number>*k_k = nullptr, *k_a = nullptr, *r_k = nullptr;
};

// Computes p.kk = key * k_k normalised per head (lower bound of the norm 1e-12) and p.k = key * (1 + (p.alpha
// - 1) * k_a).
template <class Number>
void prepare_key7(const HeadVectors7<Number>& vectors, const Matrix<Number>& key, HostProjected7<Number>& p);
// Returns the gradient of the key from d.k and d.kk, and adds to d.alpha.
template <class Number>
Matrix<Number> prepare_key7_vjp(const HeadVectors7<Number>& vectors, const Matrix<Number>& key,
                                const HostProjected7<Number>& p, HostProjected7<Number>& d);

// Computes the recurrence of each sequence; state [sequences, H * N * N] in place. Leaves the kept states.
template <class Number>
Matrix<Number> wkv7(SequenceBounds bounds, int64_t n_head, const HostProjected7<Number>& p,
                    Matrix<Number>& state, KeptStates<Number>& kept);
// Adds to r, k, v, u, kk and alpha of `d`. `dstate` is the gradient of the state that was left, and becomes
// that of the one that was found.
template <class Number>
void wkv7_vjp(SequenceBounds bounds, const Matrix<Number>& dy, const HostProjected7<Number>& p,
              const KeptStates<Number>& kept, Matrix<Number>& dstate, HostProjected7<Number>& d);

// Computes y += (sum over the head of r * k * r_k) * v, in place.
template <class Number>
void add_bonus7(const HeadVectors7<Number>& vectors, const HostProjected7<Number>& p, Matrix<Number>& y);
// Adds to r, k and v of `d`; the gradient of y itself is that of the sum.
template <class Number>
void add_bonus7_vjp(const HeadVectors7<Number>& vectors, const Matrix<Number>& dy,
                    const HostProjected7<Number>& p, HostProjected7<Number>& d);

}  // namespace fulmar
