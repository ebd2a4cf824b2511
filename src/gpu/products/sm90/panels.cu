// Independent products in one launch for more rows than linear_rows takes, on GPUs of compute capability 9.0:
// the shape of tiles by what each should take, and the epilogues that a Product names.
#include <algorithm>

#include "base/check.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/sm90/panel_kernel.h"
#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

namespace {

// What becomes of products: whole tiles mostly leave by TMA, others as a subtile's vectors, of which
// rows from `rows` on are not to be stored.
template <class T>
struct StoreProducts {
  Rows<T> out[kMostProducts];
  Epilogue epilogue[kMostProducts];

  // False, and nothing done: the tile is to be taken subtile by subtile. The longer ends, written out for
  // every sum, would fill the instruction cache.
  template <class Shape>
  __device__ __forceinline__ bool send(const PanelProduct& product, const Segment& at,
                                       const PanelSums<Shape>& sum, int group, float* chunk) const {
    if (!product.sends) return false;
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
    T* to = out[product][v.row] + v.out;
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++, to += kVectorRows * out[product].stride) {
      if (v.row + i * kVectorRows < rows) store4(to, v.of[i]);
    }
  }
};

// f(shape, what one step of one of its tiles takes of a multiprocessor's time, in hundredths of a microsecond
// as measured on an H200) for all shapes that products are taken in.
template <class F>
void for_each_shape(F&& f) {
  f(PanelShape<1, 32, 10>{}, 48);
  f(PanelShape<1, 64, 8>{}, 50);
  f(PanelShape<1, 128, 6>{}, 54);
  f(PanelShape<2, 128, 4>{}, 82);
  f(PanelShape<2, 160, 4>{}, 100);
}

// Where TMA suits an output, it takes whole tiles of it.
void let_send(Panels& panels, ProductList products) {
  for (int i = 0; i < panels.count; i++) {
    const auto& [in, weight, out, epilogue] = products[static_cast<size_t>(i)];
    FULMAR_CHECK(out.rows == in.rows && out.cols == weight.out);
    PanelProduct& product = panels.each[i];
    product.sends = out.stride % 8 == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
    if (product.sends) product.out = tensor_map(out, kChunkRows);
  }
}

template <class T>
StoreProducts<T> stores_of(ProductList products) {
  StoreProducts<T> stores{};
  for (size_t i = 0; i < products.size(); i++) {
    stores.out[i] = rows_of<T>(products[i].out);
    stores.epilogue[i] = products[i].epilogue;
  }
  return stores;
}

}  // namespace

// The shape that should be through first: whole tiles one after the other, or as many steps for each block
// with sums of tiles added up afterwards, which costs as much as some steps for each chunk of a tile.
PanelPlan plan_panels(ProductList products, int multiprocessors) {
  constexpr int64_t kStepsPerSubtile = 7;
  PanelPlan best;
  int64_t least = 0, shape_number = 0;
  for_each_shape([&](auto shape, int64_t step_cost) {
    using Shape = decltype(shape);
    int64_t tiles = 0, steps = 0, longest = 0, numbers = 0;
    for (const Product& one : products) {
      numbers += one.in.rows * one.weight.out * steps_of(one);
      tiles += panel_tiles_of<Shape>(one);
      steps += panel_tiles_of<Shape>(one) * steps_of(one);
      longest = std::max(longest, steps_of(one));
    }
    const int64_t rounds = (tiles + multiprocessors - 1) / multiprocessors;
    const int64_t steps_each = (steps + multiprocessors - 1) / multiprocessors;
    const auto consider = [&](int64_t cost, int64_t steps_of_each, const PanelPlan& plan) {
      if (least != 0 && cost >= least) return;
      least = cost;
      best = plan;
      best.filled = numbers * 100 / (steps_of_each * multiprocessors * Shape::kPartial);
    };
    consider(rounds * longest * step_cost, rounds * longest,
             {shape_number, 0, tiles, std::min<int64_t>(tiles, multiprocessors), 0});
    const int64_t blocks = (steps + steps_each - 1) / steps_each;
    consider((steps_each + kStepsPerSubtile * Shape::kSubtiles) * step_cost, steps_each,
             {shape_number, steps_each, tiles, blocks,
              static_cast<size_t>(2 * blocks * Shape::kPartial) * sizeof(float)});
    shape_number++;
  });
  return best;
}

void linear_panels(const Queue& queue, ProductList products, const PanelPlan& plan, float* partial,
                   uint32_t* counters) {
  with_activation(products.front().in.dtype, [&](auto sample) {
    using T = decltype(sample);
    int64_t shape_number = 0;
    for_each_shape([&](auto shape, int) {
      using Shape = decltype(shape);
      if (shape_number++ != plan.shape) return;
      Panels panels = panels_of<Shape>(products);
      panels.steps_each = static_cast<int>(plan.steps_each);
      panels.partial = partial;
      panels.counter = counters;
      let_send(panels, products);
      launch_panels<T, Shape>(queue, panels, stores_of<T>(products), plan.blocks);
    });
  });
}

}  // namespace fulmar::gpu
