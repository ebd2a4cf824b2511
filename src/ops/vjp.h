// The primitives that blocks of any version are made of (ops/ops.h) and the vector-Jacobian product of each:
// from the gradient of what a primitive returns, the gradient of what it takes. This is the specification of
// the backward, in f32 or f64 and without any device; a device that tunes is tested against it.
//
// A product recomputes what it needs from the inputs of its primitive. It returns the gradient of the first
// input, adds those of others to the matrices it is given, and those of weights to the parameters that are
// trained. Sums run in a fixed order: equal inputs give equal bits. All matrices are [rows, C] unless said
// otherwise.
#pragma once

#include <optional>

#include "ops/args.h"
#include "ops/matrix.h"
#include "ops/parameters.h"

namespace fulmar {

// Computes x @ weight^T and the adapter's part.
template <class Number>
Matrix<Number> linear(const Matrix<Number>& x, const LinearParameters<Number>& p);
template <class Number>
Matrix<Number> linear_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                          const LinearParameters<Number>& p);

// Computes x @ factor; factor [in, out], as low-rank factors are stored.
template <class Number>
Matrix<Number> multiply_factor(const Matrix<Number>& x, const Parameter<Number>& factor);
template <class Number>
Matrix<Number> multiply_factor_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                                   Parameter<Number>& factor);

// Computes act(x).
template <class Number>
Matrix<Number> activate(const Matrix<Number>& x, Activation act);
template <class Number>
Matrix<Number> activate_vjp(const Matrix<Number>& dy, const Matrix<Number>& x, Activation act);

// Computes bias + act(low) @ second from low = x @ first, which it leaves for the product; no activation: low
// itself.
template <class Number>
Matrix<Number> low_rank(const Matrix<Number>& x, const LowRankParameters<Number>& p,
                        std::optional<Activation> act, Matrix<Number>& low);
template <class Number>
Matrix<Number> low_rank_vjp(const Matrix<Number>& dy, const Matrix<Number>& x,
                            const LowRankParameters<Number>& p, std::optional<Activation> act,
                            const Matrix<Number>& low);

// Computes the normalisation of each of `groups` equal parts of a row, scaled and shifted by [1, C]. Layer
// norm has one group, the head norm one for each head.
struct NormShape {
  int64_t groups = 1;
  double eps = 0;
};
constexpr NormShape kLayerNorm{1, static_cast<double>(kLayerNormEps)};
constexpr NormShape head_norm_of(int64_t n_head) { return {n_head, static_cast<double>(kHeadNormEps)}; }

template <class Number>
Matrix<Number> group_norm(NormShape shape, const Matrix<Number>& x, const NormParameters<Number>& p);
template <class Number>
Matrix<Number> group_norm_vjp(NormShape shape, const Matrix<Number>& dy, const Matrix<Number>& x,
                              const NormParameters<Number>& p);

// Computes out[t] = z[t - 1] within each sequence, its carried vector at its first row; carry [sequences, C]
// <- the last row of z.
template <class Number>
Matrix<Number> shift(SequenceBounds bounds, const Matrix<Number>& z, Matrix<Number>& carry);
// Takes in `dcarry` the gradient of the carry that was left, and leaves that of the one that was found.
template <class Number>
Matrix<Number> shift_vjp(SequenceBounds bounds, const Matrix<Number>& dout, Matrix<Number>& dcarry);

// Computes z + (other - z) * mix; mix [1, C], or [rows, C].
template <class Number>
Matrix<Number> lerp(const Matrix<Number>& z, const Matrix<Number>& other, const Matrix<Number>& mix);
// Adds the gradient of `mix` to `dmix`, in its shape, unless that is empty.
template <class Number>
struct LerpInputs {
  const Matrix<Number>&z, &other, &mix;
};
template <class Number>
void lerp_vjp(const Matrix<Number>& dout, const LerpInputs<Number>& in, Matrix<Number>& dz,
              Matrix<Number>& dother, Matrix<Number>& dmix);

// Computes a * b, element by element.
template <class Number>
Matrix<Number> multiply(const Matrix<Number>& a, const Matrix<Number>& b);

// Adds a column's sum of `d` to a bias [1, C] that is trained.
template <class Number>
void add_bias_vjp(const Matrix<Number>& d, Parameter<Number>& bias);

}  // namespace fulmar
