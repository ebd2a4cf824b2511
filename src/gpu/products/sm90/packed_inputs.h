// The producer's part where weights are packed codes: inputs of each step into the ring, in the order in
// which the lanes of a fragment multiply them, since the right operand of wgmma is read from shared memory.
#pragma once

#include "gpu/products/packed.h"
#include "gpu/products/sm90/panel_product.h"

namespace fulmar::gpu {

// A stage holds the rows of 128 inputs as two matrices of 64 (wgmma_matrix), which are eight right operands
// of 16 inputs: the lane q of a fragment multiplies the positions 2q, 2q + 1, 2q + 8 and 2q + 9 of each.
constexpr int kPackedProducts = kPackedInputs / 16;
constexpr int kPackedLine = 128;  // bytes of a row of 64 inputs
// Of a stage's first operand: that of `product`.
template <int kRows>
__device__ __forceinline__ uint64_t packed_inputs(uint64_t first, int product) {
  return wgmma_advance(first, static_cast<uint32_t>(product / 4 * (kRows * kPackedLine) + product % 4 * 32));
}

// Of a row of 128 inputs sixteen lanes bring a vector of eight each. Orders say where its words go from
// `line` on, the row's place in the first matrix of 64: lanes of the second matrix store theirs in another
// turn, so that no two of a row and its neighbour meet in a bank.

// As codes in fragments are multiplied: lane q has the inputs from 32q on, four of them in each product.
struct FragmentOrder {
  template <int kRows>
  static __device__ __forceinline__ void put(unsigned char* line, int row, int vector, const uint4& v) {
    const int q = vector / 4, second = vector % 4 / 2;
    unsigned char* to = line + second * (kRows * kPackedLine) + q * 4;
    const uint32_t words[4] = {second ? v.z : v.x, second ? v.w : v.y, second ? v.x : v.z,
                               second ? v.y : v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int chunk = vector % 2 * 4 + (i ^ 2 * second);
      *reinterpret_cast<uint32_t*>(to + (chunk ^ row % 8) * 16) = words[i];
    }
  }
};

// As transposed codes are: of the sixteen inputs of a product lane q has the four from 4q on.
struct TransposedOrder {
  template <int kRows>
  static __device__ __forceinline__ void put(unsigned char* line, int row, int vector, const uint4& v) {
    const int second = vector / 8, chunk = vector % 8 / 2 * 2;
    unsigned char* to = line + second * (kRows * kPackedLine) + vector % 2 * 8;
    const uint2 low{v.x, v.z}, high{v.y, v.w};
    *reinterpret_cast<uint2*>(to + ((chunk + second) ^ row % 8) * 16) = second ? high : low;
    *reinterpret_cast<uint2*>(to + ((chunk + 1 - second) ^ row % 8) * 16) = second ? low : high;
  }
};

// 32 rows of a step at a time, eight by each warp, some of them on their way in registers.
template <class T, class Shape, class Order>
class InputBringer {
 public:
  static constexpr uint32_t kFilling = kGroupThreads / kWarp;  // arrivals that fill a stage
  static constexpr int kParts = Shape::kRows / 32, kAhead = Shape::kInputsAhead;

  __device__ __forceinline__ InputBringer(const Panels& panels, const Rows<const T>* in)
      : walk_(panels), in_(in), rows_(panels.rows) {
    more_ = walk_.next(at_);
  }

  __device__ __forceinline__ void bring(Ring<Shape> ring) {
    uint4 v[kAhead][4];
    int fetched = 0, left = 0;
#pragma unroll
    for (int i = 0; i < kAhead; i++) fetched += fetch(v[i]);
    for (left = fetched; left > 0;) {
#pragma unroll
      for (int i = 0; i < kAhead; i++) {
        if (left == 0) break;
        if (put_ == 0) mbarrier_wait(&ring.empty[ring.place], ring.phase ^ 1);
        put(v[i], ring.first());
        left += fetch(v[i]) - 1;
        if (++put_ < kParts) continue;
        put_ = 0;
        fence_async_proxy();
        __syncwarp();
        if (threadIdx.x % kWarp == 0) mbarrier_arrive(&ring.full[ring.place]);
        ring.next();
      }
    }
  }

 private:
  // Of a warp's eight rows of a part, two at a time.
  static __device__ __forceinline__ int row_of(int part, int pair) {
    const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / kWarp;
    return (part * 4 + warp) * 8 + pair * 2 + static_cast<int>(threadIdx.x) % kWarp / 16;
  }
  static __device__ __forceinline__ int vector() { return threadIdx.x % 16; }

  // The next part: 1, or 0 where there is none.
  __device__ __forceinline__ int fetch(uint4 (&v)[4]) {
    if (!more_) return 0;
    const Rows<const T>& in = in_[at_.product];
    const int first = at_.first_row + row_of(part_, 0);
    const T* from = in[first] + (at_.first + step_) * kPackedInputs + vector() * 8;
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
      v[pair] = first + pair * 2 < rows_
                    ? *reinterpret_cast<const uint4*>(from + static_cast<int64_t>(pair * 2) * in.stride)
                    : uint4{};
    }
    if (++part_ == kParts) part_ = 0, step_++;
    if (step_ == at_.steps) step_ = 0, more_ = walk_.next(at_);
    return 1;
  }
  __device__ __forceinline__ void put(const uint4 (&v)[4], unsigned char* stage) const {
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
      const int row = row_of(put_, pair);
      Order::template put<Shape::kRows>(stage + row * kPackedLine, row, vector(), v[pair]);
    }
  }

  Walk<Shape> walk_;
  const Rows<const T>* in_;
  int rows_, step_ = 0, part_ = 0, put_ = 0;
  Segment at_;
  bool more_;
};

}  // namespace fulmar::gpu
