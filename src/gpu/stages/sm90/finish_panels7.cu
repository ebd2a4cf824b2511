// RWKV-7's second low-rank GEMMs by wgmma, with project7's elementwise tail in their epilogue.
#include <algorithm>

#include "gpu/gemm/sm90/wgmma_kernel.h"
#include "gpu/gemm/sm90/wgmma_operands.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/stages/low_rank.h"

namespace fulmar::gpu {

namespace {

// The paths' GEMMs; the first block lacks the last one.
enum FinishProduct : int { kGateProduct, kDecayProduct, kRateProduct, kValueProduct };

template <class T>
struct FinishProject7 {
  bool first_block;
  Finish7Vectors by;
  Rows<T> k, v, u, kk, alpha, g, v_first;

  template <class Shape>
  __device__ __forceinline__ bool send(const PanelProduct&, const Segment&, const PanelSums<Shape>&, int,
                                       float*) const {
    return false;  // its ends read other tensors
  }
  static __device__ __forceinline__ void load_all(Float4 (&to)[kChunkVectors], const Rows<T>& from,
                                                  const SubtileVectors& x, int rows) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      const int row = x.row + i * x.row_step;
      if (row < rows) to[i] = load4(from[row] + x.out);
    }
  }
  static __device__ __forceinline__ void store_all(const Rows<T>& to, const Float4 (&v)[kChunkVectors],
                                                   const SubtileVectors& x, int rows) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      const int row = x.row + i * x.row_step;
      if (row < rows) store4(to[row] + x.out, v[i]);
    }
  }

  __device__ __forceinline__ void operator()(int product, SubtileVectors x, int rows) const {
    const int c = x.out;
    Float4 first[kChunkVectors] = {}, second[kChunkVectors] = {};
    switch (product) {
      case kGateProduct:
        return store_all(g, x.of, x, rows);
      case kDecayProduct: {
        const Float4 bias = load4(by.w0 + c);
        if (first_block) load_all(first, v, x, rows);
#pragma unroll
        for (Float4& one : x.of) {
#pragma unroll
          for (int i = 0; i < 4; i++) one.x[i] = decay_of(one.x[i], bias.x[i]);
        }
        store_all(u, x.of, x, rows);
        if (first_block) store_all(v_first, first, x, rows);
        return;
      }
      case kRateProduct: {
        const Float4 bias = load4(by.a0 + c);
        load_all(first, k, x, rows);
#pragma unroll
        for (int n = 0; n < kChunkVectors; n++) {
#pragma unroll
          for (int i = 0; i < 4; i++) x.of[n].x[i] = rate_of(x.of[n].x[i], bias.x[i]);
          prepare_keys(first[n], second[n], x.of[n], by.k_k + c, by.k_a + c);
        }
        store_all(alpha, x.of, x, rows);
        store_all(kk, second, x, rows);
        return store_all(k, first, x, rows);
      }
      case kValueProduct: {
        const Float4 bias = load4(by.v0 + c);
        load_all(first, v, x, rows);
        load_all(second, v_first, x, rows);
#pragma unroll
        for (int n = 0; n < kChunkVectors; n++) {
#pragma unroll
          for (int i = 0; i < 4; i++) {
            first[n].x[i] = mixed_value(first[n].x[i], second[n].x[i], value_share(x.of[n].x[i], bias.x[i]));
          }
        }
        return store_all(v, first, x, rows);
      }
    }
  }
};

// Calls f(shape) with the shape of fewer subtiles per SM, one after the other: K is short.
template <class F>
void with_finish_shape(GemmList products, int multiprocessors, F&& f) {
  const auto subtiles = [&](auto shape) {
    using Shape = decltype(shape);
    int64_t tiles = 0;
    for (const Gemm& one : products) tiles += panel_tiles_of<Shape>(one);
    return (tiles + multiprocessors - 1) / multiprocessors * Shape::kSubtiles;
  };
  const PanelShape<1, 128, 6> fewer_rows;
  const PanelShape<1, 160, 5> more_rows;
  if (subtiles(more_rows) < subtiles(fewer_rows)) {
    f(more_rows);
  } else {
    f(fewer_rows);
  }
}

}  // namespace

void finish_panels7(const Queue& queue, const SecondHalves7& halves, int multiprocessors) {
  const auto& [att, first_block, v_first, low, p] = halves;
  // In the order of FinishProduct.
  const Gemm products[] = {{low.g, att.g.second, p.g},
                           {low.w, att.w.second, p.u},
                           {low.a, att.a.second, p.alpha},
                           {low.v, att.v.second, p.v}};
  const GemmList list(products, std::size(products) - (first_block ? 1 : 0));
  with_activation(p.k.dtype, [&](auto sample) {
    using T = decltype(sample);
    const FinishProject7<T> finish{first_block,         finish7_vectors(att), rows_of<T>(p.k),
                                   rows_of<T>(p.v),     rows_of<T>(p.u),      rows_of<T>(p.kk),
                                   rows_of<T>(p.alpha), rows_of<T>(p.g),      rows_of<T>(v_first)};
    with_finish_shape(list, multiprocessors, [&](auto shape) {
      using Shape = decltype(shape);
      const Panels panels = panels_of<Shape>(list);
      launch_planned<T, Shape>(queue, panels, panel_operands_of<T, Shape>(list), finish,
                               std::min<int64_t>(panels.tiles, multiprocessors));
    });
  });
}

}  // namespace fulmar::gpu
