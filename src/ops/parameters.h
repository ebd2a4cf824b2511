// Weights of a model as the backward sees them: each is frozen, or collects a gradient. Shapes are those of
// checkpoints; vectors are [1, n].
#pragma once

#include "ops/matrix.h"

namespace fulmar {

template <class Number>
struct Parameter {
  Matrix<Number> value;
  Matrix<Number> gradient;  // empty: frozen; else of the value's shape, and products add to it

  bool trained() const { return !gradient.empty(); }
};

// What an adapter adds to a matrix [out, in]: scale * b a (LoRA), or scale * fold(x) d to its outputs (MiSS),
// where fold(x)[j] is the sum of x[i] over i = j modulo the rank. At most one of both.
template <class Number>
struct DeltaParameters {
  Parameter<Number>* a = nullptr;  // [rank, in]
  Parameter<Number>* b = nullptr;  // [out, rank]
  Parameter<Number>* d = nullptr;  // [rank, out]
  Number scale = 1;
};

// y = x weight^T and what an adapter adds.
template <class Number>
struct LinearParameters {
  Parameter<Number>* weight = nullptr;  // [out, in]
  DeltaParameters<Number> delta;
};

// y = bias + act(x first) second; the island knows the activation.
template <class Number>
struct LowRankParameters {
  Parameter<Number>* first = nullptr;   // [in, R]
  Parameter<Number>* second = nullptr;  // [R, out]
  Parameter<Number>* bias = nullptr;    // [1, out]; null: none
};

template <class Number>
struct NormParameters {
  Parameter<Number>* weight = nullptr;  // [1, C]
  Parameter<Number>* bias = nullptr;    // [1, C]
};

}  // namespace fulmar
