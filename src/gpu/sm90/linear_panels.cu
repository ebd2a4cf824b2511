// Independent products in one launch for more rows than linear_rows takes, on GPUs of compute capability 9.0:
// blocks that share a tile leave their sums in memory, and the last one of them adds these up in order.
#include <algorithm>

#include "base/check.h"
#include "gpu/epilogue.h"
#include "gpu/head_math.h"
#include "gpu/sm90/panel_product.h"
#include "gpu/sm90/tensor_map.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = kGroups * kGroupThreads;  // that multiply

// Where an unfinished tile's sums lie: a block's first place is for the tile that it begins in.
template <class Shape>
__device__ __forceinline__ float4* partial_of(const Panels& panels, int block, int tile_begin) {
  const int place = 2 * block + (block * panels.steps_each < tile_begin ? 1 : 0);
  return reinterpret_cast<float4*>(panels.partial + place * Shape::kPartial);
}

// Stores the segment's sums and tells whether the tile's other ones were all there already. All multiplying
// threads call.
template <class Shape>
__device__ __forceinline__ bool leave_segment(const Panels& panels, const Segment& at, int blocks,
                                              const PanelSums<Shape>& sum, int group, float* chunk) {
  __shared__ bool last;
  float4* own = partial_of<Shape>(panels, blockIdx.x, at.begin);
  for_each_turn<Shape>(sum, group, chunk, [&](int turn, const TurnVectors& v) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      store4(reinterpret_cast<float*>(&own[(turn * kChunkVectors + i) * kThreads + threadIdx.x]), v.of[i]);
    }
  });
  __threadfence();
  sync_some(1 + kGroups, kThreads);
  if (threadIdx.x == 0) {
    last = atomicAdd(&panels.counter[at.tile], 1u) + 1 == static_cast<uint32_t>(blocks);
    if (last) panels.counter[at.tile] = 0;
  }
  sync_some(1 + kGroups, kThreads);
  const bool is_last = last;
  if (is_last) __threadfence();
  return is_last;
}

// What becomes of products: whole tiles mostly leave by the copy engine, others by a turn's vectors, of which
// rows from `rows` on are not to be stored.
template <class T>
struct StoreProducts {
  Rows<T> out[kMostProducts];
  Epilogue epilogue[kMostProducts];

  // False, and nothing done: the tile is to be taken by turns. The longer ends, written out for every sum,
  // would fill the instruction cache.
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
  static __device__ __forceinline__ void end(TurnVectors& v) {
#pragma unroll
    for (Float4& one : v.of) {
#pragma unroll
      for (float& e : one.x) e = finish(kEnd, e);
    }
  }
  __device__ __forceinline__ void operator()(int product, TurnVectors v, int rows) const {
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

template <class T, class Shape, class Finish>
__device__ __forceinline__ void end_segment(const Panels& panels, const Finish& finish, const Segment& at,
                                            const PanelSums<Shape>& sum, int group, float* chunk) {
  const PanelProduct& product = panels.each[at.product];
  const auto end = [&](int, TurnVectors v) {
    v.row += at.first_row, v.out += at.first_out;
    if (v.out < product.outs) finish(at.product, v, panels.rows);
  };
  const bool whole = at.steps == product.steps;
  if (whole && finish.template send<Shape>(product, at, sum, group, chunk)) return;
  if (threadIdx.x % kGroupThreads == 0) wait_sent<0>();  // until here the chunk may be on its way
  if (whole) return for_each_turn<Shape>(sum, group, chunk, end);
  const int first_block = at.begin / panels.steps_each,
            last_block = (at.begin + product.steps - 1) / panels.steps_each;
  if (!leave_segment<Shape>(panels, at, last_block - first_block + 1, sum, group, chunk)) return;
#pragma unroll 1
  for (int turn = 0; turn < Shape::kTurns; turn++) {
    TurnVectors total = vectors_of<Shape>(turn, group);
    for (int block = first_block; block <= last_block; block++) {
      const float4* from =
          partial_of<Shape>(panels, block, at.begin) + turn * kChunkVectors * kThreads + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kChunkVectors; i++) {
        const float4 v = __ldcg(&from[i * kThreads]);
        Float4& to = total.of[i];
        to.x[0] += v.x, to.x[1] += v.y, to.x[2] += v.z, to.x[3] += v.w;
      }
    }
    end(turn, total);
  }
}

template <class T, class Shape, class Finish>
__global__ void __launch_bounds__(kRingThreads, 1)
    panels_kernel(const __grid_constant__ Panels panels, const __grid_constant__ Finish finish) {
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[Shape::kStages], empty[Shape::kStages];
  Ring<Shape> ring{align_ring(shared), full, empty};
  let_next_start();
  if (threadIdx.x == 0) prepare_ring(ring, kGroups * kGroupThreads / kWarp);
  __syncthreads();
  const int group = threadIdx.x / kGroupThreads;
  if (group == kGroups) {
    give_registers<kBringRegisters>();
    if (threadIdx.x == kGroups * kGroupThreads) bring_steps(panels, ring);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous();
    float* chunk = reinterpret_cast<float*>(ring.stages + Shape::kStages * Shape::kStageBytes) +
                   group * kChunkRows * kChunkStride;
    Segment at;
    for (Walk<Shape> walk(panels); walk.next(at);) {
      PanelSums<Shape> sum;
      multiply_segment<Shape, T>(at, ring, group, sum);
      end_segment<T, Shape>(panels, finish, at, sum, group, chunk);
    }
    if (threadIdx.x % kGroupThreads == 0) wait_written();
  }
}

// What project7 still owes once the second halves of its low-rank paths are known.
enum class Path : int { gate, decay, rate, value };
template <class T>
struct FinishProject7 {
  bool first_block;
  const float *w0, *a0, *v0, *k_k, *k_a;
  Rows<T> k, v, u, kk, alpha, g, v_first;

  template <class Shape>
  __device__ __forceinline__ bool send(const PanelProduct&, const Segment&, const PanelSums<Shape>&, int,
                                       float*) const {
    return false;  // its ends read other tensors
  }
  static __device__ __forceinline__ void load_all(Float4 (&to)[kChunkVectors], const Rows<T>& from,
                                                  const TurnVectors& x, int rows) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      const int row = x.row + i * kVectorRows;
      if (row < rows) to[i] = load4(from[row] + x.out);
    }
  }
  static __device__ __forceinline__ void store_all(const Rows<T>& to, const Float4 (&v)[kChunkVectors],
                                                   const TurnVectors& x, int rows) {
#pragma unroll
    for (int i = 0; i < kChunkVectors; i++) {
      const int row = x.row + i * kVectorRows;
      if (row < rows) store4(to[row] + x.out, v[i]);
    }
  }

  __device__ __forceinline__ void operator()(int product, TurnVectors x, int rows) const {
    const int c = x.out;
    Float4 first[kChunkVectors] = {}, second[kChunkVectors] = {};
    switch (static_cast<Path>(product)) {
      case Path::gate:
        return store_all(g, x.of, x, rows);
      case Path::decay: {
        const Float4 bias = load4(w0 + c);
        if (first_block) load_all(first, v, x, rows);
#pragma unroll
        for (Float4& one : x.of) {
#pragma unroll
          for (int i = 0; i < 4; i++) one.x[i] += bias.x[i];
        }
        store_all(u, x.of, x, rows);
        if (first_block) store_all(v_first, first, x, rows);
        return;
      }
      case Path::rate: {
        const Float4 bias = load4(a0 + c);
        load_all(first, k, x, rows);
#pragma unroll
        for (int n = 0; n < kChunkVectors; n++) {
#pragma unroll
          for (int i = 0; i < 4; i++) x.of[n].x[i] = sigmoid(x.of[n].x[i] + bias.x[i]);
          prepare_keys(first[n], second[n], x.of[n], k_k + c, k_a + c);
        }
        store_all(alpha, x.of, x, rows);
        store_all(kk, second, x, rows);
        return store_all(k, first, x, rows);
      }
      case Path::value: {
        const Float4 bias = load4(v0 + c);
        load_all(first, v, x, rows);
        load_all(second, v_first, x, rows);
#pragma unroll
        for (int n = 0; n < kChunkVectors; n++) {
#pragma unroll
          for (int i = 0; i < 4; i++) {
            first[n].x[i] += (second[n].x[i] - first[n].x[i]) * sigmoid(x.of[n].x[i] + bias.x[i]);
          }
        }
        return store_all(v, first, x, rows);
      }
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

template <class Shape>
int64_t tiles_of(const RowsProduct& one) {
  return (one.weight.out + Shape::kOuts - 1) / Shape::kOuts *
         ((one.in.rows + Shape::kRows - 1) / Shape::kRows);
}
int64_t steps_of(const RowsProduct& one) { return (one.weight.in + kRingStep - 1) / kRingStep; }

template <class Shape>
Panels panels_of(RowsProducts list) {
  FULMAR_CHECK(list.size() <= kMostProducts);
  Panels panels{};
  panels.rows = static_cast<int>(list.front().in.rows);
  panels.row_tiles = (panels.rows + Shape::kRows - 1) / Shape::kRows;
  for (const RowsProduct& one : list) {
    FULMAR_CHECK(one.in.rows == panels.rows && one.weight.out % 4 == 0);
    const Tensor weight{const_cast<void*>(one.weight.data), one.in.dtype, one.weight.out, one.weight.in,
                        one.weight.in};
    const int steps = static_cast<int>(steps_of(one)), tiles = static_cast<int>(tiles_of<Shape>(one));
    panels.each[panels.count++] = {tensor_map(weight, Shape::kOuts),
                                   tensor_map(one.in, Shape::kRows),
                                   {},
                                   false,
                                   static_cast<int>(one.weight.out),
                                   steps,
                                   panels.steps,
                                   panels.tiles};
    panels.steps += tiles * steps;
    panels.tiles += tiles;
  }
  return panels;
}

// Where the copy engine suits an output, it takes whole tiles of it.
void let_send(Panels& panels, RowsProducts products) {
  for (int i = 0; i < panels.count; i++) {
    const auto& [in, weight, out, epilogue] = products[static_cast<size_t>(i)];
    FULMAR_CHECK(out.rows == in.rows && out.cols == weight.out);
    PanelProduct& product = panels.each[i];
    product.sends = out.stride % 8 == 0 && reinterpret_cast<uintptr_t>(out.data) % 16 == 0;
    if (product.sends) product.out = tensor_map(out, kChunkRows);
  }
}

template <class T, class Shape, class Finish>
void launch_panels(const Queue& queue, const Panels& panels, const Finish& finish, int64_t blocks) {
  static const bool allowed = [] {
    allow_shared(panels_kernel<T, Shape, Finish>, Shape::kBytes);
    return true;
  }();
  FULMAR_CHECK(allowed);
  launch(queue, panels_kernel<T, Shape, Finish>, dim3(static_cast<unsigned>(blocks)), dim3(kRingThreads),
         Shape::kBytes, panels, finish);
}

template <class T>
StoreProducts<T> stores_of(RowsProducts products) {
  StoreProducts<T> stores{};
  for (size_t i = 0; i < products.size(); i++) {
    stores.out[i] = rows_of<T>(products[i].out);
    stores.epilogue[i] = products[i].epilogue;
  }
  return stores;
}

// The second halves are short, so what counts is turns: the shape with fewer of them, one after the other.
template <class F>
void with_finish_shape(RowsProducts products, int multiprocessors, F&& f) {
  const auto turns = [&](auto shape) {
    using Shape = decltype(shape);
    int64_t tiles = 0;
    for (const RowsProduct& one : products) tiles += tiles_of<Shape>(one);
    return (tiles + multiprocessors - 1) / multiprocessors * Shape::kTurns;
  };
  const PanelShape<1, 128, 6> fewer_rows;
  const PanelShape<1, 160, 5> more_rows;
  if (turns(more_rows) < turns(fewer_rows)) {
    f(more_rows);
  } else {
    f(fewer_rows);
  }
}

}  // namespace

// The shape that should be through first: whole tiles by turns, or as many steps for each block with sums of
// tiles added up afterwards, which costs as much as some steps for each chunk of a tile.
PanelPlan plan_panels(RowsProducts products, int multiprocessors) {
  constexpr int64_t kStepsPerTurn = 7;
  PanelPlan best;
  int64_t least = 0, shape_number = 0;
  for_each_shape([&](auto shape, int64_t step_cost) {
    using Shape = decltype(shape);
    int64_t tiles = 0, steps = 0, longest = 0, numbers = 0;
    for (const RowsProduct& one : products) {
      numbers += one.in.rows * one.weight.out * steps_of(one);
      tiles += tiles_of<Shape>(one);
      steps += tiles_of<Shape>(one) * steps_of(one);
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
    consider((steps_each + kStepsPerTurn * Shape::kTurns) * step_cost, steps_each,
             {shape_number, steps_each, tiles, blocks,
              static_cast<size_t>(2 * blocks * Shape::kPartial) * sizeof(float)});
    shape_number++;
  });
  return best;
}

void linear_panels(const Queue& queue, RowsProducts products, const PanelPlan& plan, float* partial,
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

void finish_panels7(const Queue& queue, const TimeMix7& att, bool first_block, Tensor v_first,
                    const LowRows7& low, const Projected7& p, int multiprocessors) {
  // In the order of Path.
  const RowsProduct products[] = {{low.g, att.g.second, p.g},
                                  {low.w, att.w.second, p.u},
                                  {low.a, att.a.second, p.alpha},
                                  {low.v, att.v.second, p.v}};
  const RowsProducts list(products, std::size(products) - (first_block ? 1 : 0));
  with_activation(p.k.dtype, [&](auto sample) {
    using T = decltype(sample);
    const FinishProject7<T> finish{
        first_block,         att.w.bias.as<float>(), att.a.bias.as<float>(), att.v.bias.as<float>(),
        att.k_k.as<float>(), att.k_a.as<float>(),    rows_of<T>(p.k),        rows_of<T>(p.v),
        rows_of<T>(p.u),     rows_of<T>(p.kk),       rows_of<T>(p.alpha),    rows_of<T>(p.g),
        rows_of<T>(v_first)};
    with_finish_shape(list, multiprocessors, [&](auto shape) {
      using Shape = decltype(shape);
      const Panels panels = panels_of<Shape>(list);
      launch_panels<T, Shape>(queue, panels, finish, std::min<int64_t>(panels.tiles, multiprocessors));
    });
  });
}

}  // namespace fulmar::gpu
