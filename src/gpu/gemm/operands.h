// Predicates over the operands of products that several kernels share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/gemm/kernel.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/skinny.h"

namespace fulmar::gpu {

template <class Predicate>
bool all_of(GemmList products, Predicate predicate) {
  return std::all_of(products.begin(), products.end(), predicate);
}

inline bool equal_inputs(GemmList products) {
  return all_of(products, [&](const Gemm& one) { return one.weight.in == products.front().weight.in; });
}

// Returns whether each row begins at a multiple of 16 bytes.
inline bool whole_vectors(Tensor in) {
  return in.stride % 8 == 0 && reinterpret_cast<uintptr_t>(in.data) % 16 == 0;
}

// Returns whether 16-byte loads reach the operands of all products.
inline bool all_suit_skinny(GemmList products) {
  return all_of(products, [](const Gemm& one) { return suits_skinny(one.in, one.weight); });
}

// Returns whether outputs can be stored in vectors of `grain`. The tiled kernels store f32 (logits, mostly)
// only where the order of adding is fixed: otherwise the library is quicker.
inline bool suits_tiled_out(const Gemm& product, int64_t grain, const GemmDevice& device) {
  return suits_skinny(product.in, product.weight) && product.weight.out % grain == 0 &&
         (device.fixed_order || product.out.dtype == product.in.dtype);
}

// Returns whether kernels of packed codes take the products together: one format, packed as fragments.
inline bool suit_packed(GemmList products) {
  const Weight& any = products.front().weight;
  return all_of(products, [&](const Gemm& one) {
    return one.weight.layout == WeightLayout::fragments && one.weight.dtype == any.dtype &&
           whole_vectors(one.in);
  });
}

inline bool outs_by_fours(GemmList products) {
  return all_of(products, [](const Gemm& one) { return one.weight.out % 4 == 0; });
}

// Returns whether kernels of codes packed transposed take the down-projection.
inline bool suits_sparse_q(const Gemm& one) {
  const Weight& weight = one.weight;
  return weight.by_input() && one.epilogue == Epilogue::none && one.out.dtype == one.in.dtype &&
         suits_packing_transposed(weight.dtype, weight.out, weight.in, weight.group);
}

// Returns whether the weight is E4M3 and the inputs can be quantised to E4M3.
inline bool suits_float8_inputs(const Gemm& one) {
  return is_float8_rows(one.weight) && whole_vectors(one.in) && one.out.stride % 8 == 0;
}

}  // namespace fulmar::gpu
