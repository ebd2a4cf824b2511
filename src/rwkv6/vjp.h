// The recurrence of RWKV-6's block (rwkv6/islands.h) in plain form and its vector-Jacobian product: the
// specification of the backward. How products add gradients: ops/vjp.h.
#pragma once

#include "ops/matrix.h"
#include "ops/parameters.h"

namespace fulmar {

// Projected6 in host memory, or the gradient of one; all [rows, C].
template <class Number>
struct HostProjected6 {
  Matrix<Number> r, k, v, g;
  Matrix<Number> u;  // decay before its activation: w = exp(-exp(u)), which may be 0
};

// The vector of the bonus, time_faaaa.
template <class Number>
struct HeadVectors6 {
  int64_t n_head = 0;
  Parameter<Number>* u = nullptr;  // [1, C]
};

// Computes the recurrence of each sequence; state [sequences, H * N * N], value-major, in place. Leaves the
// kept states.
template <class Number>
Matrix<Number> wkv6(SequenceBounds bounds, const HeadVectors6<Number>& vectors,
                    const HostProjected6<Number>& p, Matrix<Number>& state, KeptStates<Number>& kept);

// What the product of wkv6 reads.
template <class Number>
struct Wkv6Inputs {
  const HeadVectors6<Number>& vectors;
  const HostProjected6<Number>& p;
  const KeptStates<Number>& kept;
};
// Adds to r, k, v and u of `d`. `dstate` is the gradient of the state that was left, and becomes that of the
// one that was found. States are run again, never recovered by division: a decay may be 0.
template <class Number>
void wkv6_vjp(SequenceBounds bounds, const Matrix<Number>& dy, const Wkv6Inputs<Number>& in,
              Matrix<Number>& dstate, HostProjected6<Number>& d);

}  // namespace fulmar
