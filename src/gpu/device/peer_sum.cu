// Ranks push instead of fetching: a write crosses the link once, and flags are polled in own memory. Two
// launches of a rank use different halves of the inboxes: a rank that begins its next launch but one has met
// all others in the launch between, so they have read what it pushed before.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/peer_sum.h"

namespace fulmar::gpu {

namespace {

constexpr int kPeerThreads = 512;

__device__ uint32_t* flag_of(const Peers& p, int owner, Meeting meeting, int from) {
  return p.flags[owner] + (static_cast<size_t>(meeting) * kPeerBlocks + blockIdx.x) * kMostPeers + from;
}

// Gives up when the time is over or the host says so; then nobody is waited for any more.
__device__ void wait_for(const Peers& p, const uint32_t* flag, uint32_t times, int from) {
  constexpr uint32_t kBetweenLooks = 1024;
  uint64_t begin = 0;
  for (uint32_t polls = 1; static_cast<int32_t>(load_acquire_system(flag) - times) < 0; polls++) {
    if (polls % kBetweenLooks != 0) continue;
    if (begin == 0) begin = ticks();
    if (p.news->closed != 0 || p.news->missing != 0) return;
    if (ticks() - begin > p.timeout) {
      p.news->missing = static_cast<uint32_t>(from) + 1;
      return;
    }
  }
}

// Tells the others that what this block has pushed is there, and waits for what theirs have. All threads.
__device__ void meet(const Peers& p, Meeting meeting, uint32_t times) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < p.size && other != p.rank) {
    store_release_system(flag_of(p, other, meeting, p.rank), times);
    wait_for(p, flag_of(p, p.rank, meeting, other), times, other);
  }
  __syncthreads();
}

// This block's words of a tensor.
struct Words {
  int64_t first, last;
  __device__ explicit Words(int64_t all) {
    const int64_t shared = (all + gridDim.x - 1) / gridDim.x;
    const int64_t each = (max(shared, static_cast<int64_t>(kPeerThreads)) + 15) / 16 * 16;
    first = min(all, each * blockIdx.x);
    last = min(all, first + each);
  }
  // A rank's part of them.
  __device__ Words(const Words& block, int rank, int size) {
    const int64_t count = block.last - block.first;
    first = block.first + count * rank / size;
    last = block.first + count * (rank + 1) / size;
  }
};

template <class F>
__device__ void for_words(const Words& words, F f) {
  for (int64_t at = words.first + threadIdx.x; at < words.last; at += kPeerThreads) f(at);
}

template <class T>
constexpr int kOfWord = static_cast<int>(sizeof(uint4) / sizeof(T));

template <class T>
__device__ void add_word(float (&sum)[kOfWord<T>], const uint4& word) {
  T numbers[kOfWord<T>];
  memcpy(numbers, &word, sizeof(word));
#pragma unroll
  for (int i = 0; i < kOfWord<T>; i++) sum[i] += to_float(numbers[i]);
}

// All ranks' words at `at`, added up in the order of the ranks.
template <class T>
__device__ void sum_at(const Peers& p, const uint4* own, const uint4* inbox, int64_t at,
                       float (&sum)[kOfWord<T>]) {
  for (int from = 0; from < p.size; from++) {
    add_word<T>(sum, from == p.rank ? own[at] : __ldcv(inbox + from * p.capacity + at));
  }
}

template <class T>
__device__ void add_to(float* x, int64_t at, const float (&sum)[kOfWord<T>]) {
#pragma unroll
  for (int i = 0; i < kOfWord<T>; i += 4) {
    float* to = x + at * kOfWord<T> + i;
    Float4 v = load4(to);
#pragma unroll
    for (int e = 0; e < 4; e++) v.x[e] += sum[i + e];
    store4(to, v);
  }
}

template <class T>
__device__ uint4 rounded_word(const float (&sum)[kOfWord<T>]) {
  T numbers[kOfWord<T>];
#pragma unroll
  for (int i = 0; i < kOfWord<T>; i++) numbers[i] = from_float<T>(sum[i]);
  uint4 word;
  memcpy(&word, numbers, sizeof(word));
  return word;
}

template <class T, bool kTwoShot>
__global__ void __launch_bounds__(kPeerThreads)
    add_sum_kernel(const __grid_constant__ Peers p, const uint4* partial, float* x, int64_t count) {
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = p.calls[blockIdx.x] + 1;
  const Words words(count);
  const int64_t half = times % 2;
  const auto inbox_of = [&](int owner) { return p.inbox[owner] + half * p.size * p.capacity; };
  if (words.first < words.last) {
    for (int to = 0; to < p.size; to++) {
      if (to == p.rank) continue;
      uint4* const inbox = inbox_of(to) + p.rank * p.capacity;
      for_words(kTwoShot ? Words(words, to, p.size) : words, [&](int64_t at) { inbox[at] = partial[at]; });
    }
    meet(p, Meeting::pushed, times);
    const uint4* const inbox = inbox_of(p.rank);
    if constexpr (kTwoShot) {
      for_words(Words(words, p.rank, p.size), [&](int64_t at) {
        float sum[kOfWord<T>] = {};
        sum_at<T>(p, partial, inbox, at, sum);
        const uint4 word = rounded_word<T>(sum);
        for (int to = 0; to < p.size; to++) p.sums[to][half * p.capacity + at] = word;
      });
      meet(p, Meeting::summed, times);
      for_words(words, [&](int64_t at) {
        float sum[kOfWord<T>] = {};
        add_word<T>(sum, __ldcv(p.sums[p.rank] + half * p.capacity + at));
        add_to<T>(x, at, sum);
      });
    } else {
      for_words(words, [&](int64_t at) {
        float sum[kOfWord<T>] = {};
        sum_at<T>(p, partial, inbox, at, sum);
        add_to<T>(x, at, sum);
      });
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) p.calls[blockIdx.x] = times;
}

// A block takes every kPeerBlocks-th row.
__global__ void __launch_bounds__(kPeerThreads)
    gather_kernel(const __grid_constant__ Peers p, const float* part, int64_t rows, int64_t cols,
                  float* whole, int64_t stride, bool fours) {
  pdl_launch_next();
  pdl_wait();
  uint32_t* const calls = p.calls + kPeerBlocks + blockIdx.x;
  const uint32_t times = *calls + 1;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* from = part + row * cols;
    float* to = whole + row * stride;
    if (fours) {
      for (int64_t c = threadIdx.x * 4; c < cols; c += kPeerThreads * 4) store4(to + c, load4(from + c));
    } else {
      for (int64_t c = threadIdx.x; c < cols; c += kPeerThreads) to[c] = from[c];
    }
  }
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (p.rank != 0 && other == 0) store_release_system(flag_of(p, 0, Meeting::gathered, p.rank), times);
  if (p.rank == 0 && other > 0 && other < p.size) {
    wait_for(p, flag_of(p, 0, Meeting::gathered, other), times, other);
  }
  __syncthreads();
  if (other == 0) *calls = times;
}

}  // namespace

void peer_add_sum(const Queue& queue, const Peers& peers, const Tensor& partial, const Tensor& x,
                  bool two_shot) {
  const auto bytes = static_cast<int64_t>(size_of(partial.dtype)) * partial.count();
  const int64_t words = bytes / static_cast<int64_t>(sizeof(uint4));
  FULMAR_CHECK(bytes % static_cast<int64_t>(sizeof(uint4)) == 0 && words <= peers.capacity);
  FULMAR_CHECK(partial.contiguous() && x.contiguous() && x.count() == partial.count());
  const auto run = [&](auto sample) {
    using T = decltype(sample);
    const auto kernel = two_shot ? add_sum_kernel<T, true> : add_sum_kernel<T, false>;
    launch(queue, kernel, dim3(kPeerBlocks), dim3(kPeerThreads), 0, peers, partial.as<const uint4>(),
           x.as<float>(), words);
  };
  if (partial.dtype == DType::f32) return run(0.0f);
  with_activation(partial.dtype, run);
}

void peer_gather(const Queue& queue, const Peers& peers, const Tensor& part, int64_t first,
                 const Tensor& whole) {
  FULMAR_CHECK(part.dtype == DType::f32 && part.contiguous() && whole.stride >= first + part.cols);
  const bool fours = part.cols % 4 == 0 && first % 4 == 0 && whole.stride % 4 == 0;
  launch(queue, gather_kernel, dim3(kPeerBlocks), dim3(kPeerThreads), 0, peers, part.as<const float>(),
         part.rows, part.cols, whole.as<float>() + first, whole.stride, fours);
}

}  // namespace fulmar::gpu
