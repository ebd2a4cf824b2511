#include "gpu/gemm/fp8.h"

#include <algorithm>

#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/operands.h"
#include "gpu/gemm/wgmma_launch.h"

namespace fulmar::gpu {

namespace {

// Calls multiply(products, inputs) for chunks of rows whose codes fit the buffer.
template <class Multiply>
void for_quantised_pieces(const GemmResources& resources, const Queue& queue, GemmList products,
                          bool relu_squared, Multiply multiply) {
  const int64_t rows = products.front().in.rows, room = float8_room(resources, queue, products);
  FULMAR_CHECK(products.size() <= kMostGemms);
  for (int64_t first = 0; first < rows; first += room) {
    Gemm piece[kMostGemms];
    Float8Input storage[kMostGemms];
    size_t count = 0;
    for (Gemm one : products) {
      const int64_t left = std::min(room, rows - first);
      one.in = one.in.slice_rows(first, left), one.out = one.out.slice_rows(first, left);
      piece[count++] = one;
    }
    const GemmList pieces(piece, count);
    multiply(pieces, quantise(resources, queue, pieces, {room, relu_squared}, storage));
  }
}

}  // namespace

int64_t float8_room(const GemmResources& resources, const Queue& queue, GemmList products) {
  constexpr int64_t kGrain = 64;  // keeps what follows the scales aligned
  int64_t row_bytes = 0;
  for (const Gemm& one : products) row_bytes += one.weight.in + static_cast<int64_t>(sizeof(float));
  const auto bytes = static_cast<int64_t>(resources.decoded[queue.index].bytes());
  const int64_t room = bytes / row_bytes / kGrain * kGrain;
  FULMAR_CHECK(room > 0, "no room was made for codes of inputs");
  return room;
}

std::span<const Float8Input> quantise(const GemmResources& resources, const Queue& queue, GemmList products,
                                      const Float8Quantising& how, Float8Input (&to)[kMostGemms]) {
  auto* at = static_cast<std::byte*>(resources.decoded[queue.index].data());
  size_t count = 0;
  for (const Gemm& one : products) {
    const int64_t rows = one.in.rows, in = one.weight.in;
    auto* const scales = reinterpret_cast<float*>(at + how.room * in);
    to[count++] = {one.in, {at, DType::f8_e4m3, rows, in, in}, scales, how.relu_squared};
    at = reinterpret_cast<std::byte*>(scales + how.room);
  }
  const std::span<const Float8Input> inputs(to, count);
  if constexpr (kHopperCode) quantise_inputs(queue, inputs);
  return inputs;
}

void run_float8_by_library(const GemmResources& resources, const Queue& queue, GemmList products,
                           bool relu_squared) {
  for_quantised_pieces(
      resources, queue, products, relu_squared, [&](GemmList pieces, std::span<const Float8Input> inputs) {
        const Float8Input* input = inputs.data();
        for (const Gemm& one : pieces) {
          const Float8Input& in = *input++;
          if (resources.library->run_float8(queue, in.codes, in.scales, one.weight, one.out)) {
            apply_epilogue(queue, one.out, one.epilogue);
          } else {
            run_wgmma(resources, queue, {&kWgmmaFp8Kernel, {&one, 1}, {&in, 1}});
          }
        }
      });
}

constinit const Kernel kWgmmaFp8Kernel{
    .name = "wgmma_fp8",
    .needs = has_wgmma,
    .accepts =
        [](GemmList products, const GemmDevice&) {
          return all_of(products, [](const Gemm& one) {
            return suits_float8_inputs(one) && (one.out.dtype == DType::f16 || one.out.dtype == DType::f32);
          });
        },
    .launch =
        [](const GemmResources& resources, const Queue& queue, GemmList products) {
          for_quantised_pieces(resources, queue, products, false,
                               [&](GemmList pieces, std::span<const Float8Input> inputs) {
                                 run_wgmma(resources, queue, {&kWgmmaFp8Kernel, pieces, inputs});
                               });
        },
};

constinit const Kernel kLibraryFp8Kernel{
    .name = "library_fp8",
    .needs = has_matrix_units,
    .accepts = [](GemmList products, const GemmDevice&) { return all_of(products, suits_float8_inputs); },
    .launch = [](const GemmResources& resources, const Queue& queue,
                 GemmList products) { run_float8_by_library(resources, queue, products); },
};

}  // namespace fulmar::gpu
