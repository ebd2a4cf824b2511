// The epilogue of the wgmma kernels: activation and store, by TMA where that suits the output.
#pragma once

#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/sm90/tensor_map.h"
#include "gpu/gemm/sm90/wgmma_product.h"

namespace fulmar::gpu {

// Stores products: whole tiles mostly by TMA, others as vectors of a subtile,
// without rows from `rows` on.
template <class T>
struct StoreProducts {
  Rows<T> out[kMostGemms];       // or
  Rows<float> wide[kMostGemms];  // null data: `out`
  Epilogue epilogue[kMostGemms];

  // Stores a whole tile by TMA. Returns false, and does nothing, where that is impossible or the epilogue is
  // a long one: inlined for every sum, it would overflow the instruction cache. Then call it per subtile.
  template <class Shape>
  __device__ __forceinline__ bool send(const PanelProduct& product, const Segment& at,
                                       const PanelSums<Shape>& sum, int group, float* chunk) const {
    if (Shape::kStriped || !product.sends) return false;
    unsigned char* places = align_ring(reinterpret_cast<unsigned char*>(chunk));
    switch (epilogue[at.product]) {
      case Epilogue::none:
        send_tile<T, Epilogue::none, Shape>(product.out, at, sum, group, places);
        return true;
      case Epilogue::relu_squared:
        send_tile<T, Epilogue::relu_squared, Shape>(product.out, at, sum, group, places);
        return true;
      default:
        return false;
    }
  }

  template <Epilogue kEnd>
  static __device__ __forceinline__ void end(SubtileVectors& v) {
#pragma unroll
    for (Float4& one : v.of) {
#pragma unroll
      for (float& e : one.x) e = finish(kEnd, e);
    }
  }
  __device__ __forceinline__ void operator()(int product, SubtileVectors v, int rows) const {
    switch (epilogue[product]) {
      case Epilogue::none:
        break;
      case Epilogue::tanh:
        end<Epilogue::tanh>(v);
        break;
      case Epilogue::sigmoid:
        end<Epilogue::sigmoid>(v);
        break;
      case Epilogue::silu:
        end<Epilogue::silu>(v);
        break;
      case Epilogue::relu_squared:
        end<Epilogue::relu_squared>(v);
        break;
    }
    if (wide[product].data != nullptr) return store_rows(wide[product], v, rows);
    store_rows(out[product], v, rows);
  }
  template <class E>
  static __device__ __forceinline__ void store_rows(const Rows<E>& out, const SubtileVectors& v, int rows) {
    E* to = out[v.row] + v.out;
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++, to += v.row_step * out.stride) {
      if (v.row + i * v.row_step < rows) store4(to, v.of[i]);
    }
  }
};

// ---- on the host

// Makes the tensor maps of the outputs that TMA can store.
inline void let_send(Panels& panels, GemmList products) {
  for (int i = 0; i < panels.count; i++) {
    const auto& [in, weight, out, epilogue] = products[static_cast<size_t>(i)];
    FULMAR_CHECK(out.rows == in.rows && out.cols == weight.out);
    PanelProduct& product = panels.each[i];
    product.sends =
        out.dtype == in.dtype && out.stride % 8 == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
    if (product.sends) product.out = tensor_map(out, kChunkRows);
  }
}

template <class T>
StoreProducts<T> stores_of(GemmList products) {
  StoreProducts<T> stores{};
  for (size_t i = 0; i < products.size(); i++) {
    const Tensor& out = products[i].out;
    if (out.dtype == DType::f32) {
      stores.wide[i] = rows_of<float>(out);
    } else {
      stores.out[i] = rows_of<T>(out);
    }
    stores.epilogue[i] = products[i].epilogue;
  }
  return stores;
}

}  // namespace fulmar::gpu
