// Ranks push rather than pull: a write crosses the link once, and flags are polled in local memory. Receive
// buffers are double-buffered by launch number: a rank that starts launch n + 2 has heard from all others in
// launch n + 1, so they have read what it pushed in launch n.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/peer_sum.h"
#include "gpu/device/peer_wait.h"

namespace fulmar::gpu {

namespace {

constexpr int kPeerThreads = 256;
constexpr int kPieceWords = 2 * kPeerThreads;  // pushed per block and iteration

__device__ uint32_t& sums_so_far(const Peers& p) { return p.counts[blockIdx.x]; }
__device__ uint32_t& times_met(const Peers& p, Meeting meeting) { return count_of(p, meeting, blockIdx.x); }

// Signals the other ranks that this block's pushes are complete. All threads call.
__device__ void tell(const Peers& p, Meeting meeting, uint32_t times) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < p.size && other != p.rank) publish(flag_of(p, other, meeting, blockIdx.x, p.rank), times);
}

// Waits for the pushes of the other ranks' corresponding blocks. All threads call.
__device__ void wait_for_all(const Peers& p, Meeting meeting, uint32_t times) {
  const int other = static_cast<int>(threadIdx.x);
  if (other < p.size && other != p.rank) wait_for(p, meeting, blockIdx.x, other, times);
  __syncthreads();
}

struct Words {
  int64_t first, last;
  __device__ Words(int64_t first, int64_t last) : first(first), last(last) {}
  // Computes the range of a tensor's words that this block reduces.
  __device__ explicit Words(int64_t all) {
    const int64_t shared = (all + gridDim.x - 1) / gridDim.x;
    const int64_t each = (max(shared, static_cast<int64_t>(kPeerThreads)) + 15) / 16 * 16;
    first = min(all, each * blockIdx.x);
    last = min(all, first + each);
  }
  // Computes the part of a block's range that `rank` reduces (two-shot).
  __device__ Words(const Words& block, int rank, int size) {
    const int64_t count = block.last - block.first;
    first = block.first + count * rank / size;
    last = block.first + count * (rank + 1) / size;
  }
  __device__ Words piece(int number) const {
    const int64_t begin = min(last, first + static_cast<int64_t>(number) * kPieceWords);
    return {begin, min(last, begin + kPieceWords)};
  }
  __device__ int pieces() const { return static_cast<int>((last - first + kPieceWords - 1) / kPieceWords); }
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

// Adds up all ranks' words at `at`, in rank order.
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

// Returns where rank `from` writes its data for rank `owner` in launch number `times`.
__device__ uint4* inbox_of(const Peers& p, int owner, int from, uint32_t times) {
  return p.inbox[owner] + (times % 2 * static_cast<int64_t>(p.size) + from) * p.capacity;
}
__device__ uint4* mail_of(const Peers& p, int owner, int from, uint32_t times) {
  return p.mail[owner] + (times % 2 * static_cast<int64_t>(p.size) + from) * 2 * p.flagged_capacity;
}

// Returns a 64-bit word: data in the low half, the flag that says it has arrived in the high half.
__device__ uint64_t flagged(uint32_t bits, uint32_t flag) { return static_cast<uint64_t>(flag) << 32 | bits; }
__device__ bool has_come(uint64_t number, uint32_t flag) { return number >> 32 == flag; }

// Stores a 16-byte word split over two planes, so that a warp's writes are contiguous.
__device__ void push_flagged(uint4* mail, int64_t capacity, int64_t at, const uint4& word, uint32_t flag) {
  store_relaxed_system(mail + at, {flagged(word.x, flag), flagged(word.y, flag)});
  store_relaxed_system(mail + capacity + at, {flagged(word.z, flag), flagged(word.w, flag)});
}
__device__ uint4 wait_flagged(const Peers& p, int from, const uint4* mail, int64_t at, uint32_t flag) {
  Patience patience;
  Word64x2 low, high;
  do {
    low = load_relaxed_system(mail + at);
    high = load_relaxed_system(mail + p.flagged_capacity + at);
    const bool come =
        has_come(low.x, flag) && has_come(low.y, flag) && has_come(high.x, flag) && has_come(high.y, flag);
    if (come) break;
  } while (!patience.ends(p, from));
  return {static_cast<uint32_t>(low.x), static_cast<uint32_t>(low.y), static_cast<uint32_t>(high.x),
          static_cast<uint32_t>(high.y)};
}

// All-reduces with data and flag in one 64-bit word (low-latency protocol): no fence and no separate flag.
template <class T>
__global__ void __launch_bounds__(kPeerThreads)
    flagged_sum_kernel(const __grid_constant__ Peers p, const uint4* partial, float* x, int64_t count) {
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = sums_so_far(p) + 1;
  const int64_t every = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x;
  for (int64_t at = first; at < count; at += every) {
    const uint4 word = partial[at];
    for (int to = 0; to < p.size; to++) {
      if (to != p.rank) push_flagged(mail_of(p, to, p.rank, times), p.flagged_capacity, at, word, times);
    }
  }
  for (int64_t at = first; at < count; at += every) {
    constexpr int kFours = kOfWord<T> / 4;
    Float4 v[kFours];
    float* const to = x + at * kOfWord<T>;
#pragma unroll
    for (int i = 0; i < kFours; i++) v[i] = load4(to + 4 * i);
    const uint4 own = partial[at];
    float sum[kOfWord<T>] = {};
    for (int from = 0; from < p.size; from++) {
      add_word<T>(sum,
                  from == p.rank ? own : wait_flagged(p, from, mail_of(p, p.rank, from, times), at, times));
    }
#pragma unroll
    for (int i = 0; i < kFours; i++) {
#pragma unroll
      for (int e = 0; e < 4; e++) v[i].x[e] += sum[4 * i + e];
      store4(to + 4 * i, v[i]);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) sums_so_far(p) = times;
}

template <class T>
__global__ void __launch_bounds__(kPeerThreads)
    add_words_kernel(const uint4* words, float* x, int64_t count) {
  pdl_launch_next();
  pdl_wait();
  const int64_t every = static_cast<int64_t>(gridDim.x) * kPeerThreads;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * kPeerThreads + threadIdx.x; at < count; at += every) {
    float sum[kOfWord<T>] = {};
    add_word<T>(sum, words[at]);
    add_to<T>(x, at, sum);
  }
}

constexpr int kPartCols = 32, kPartLanes = kPartCols / 4, kPartGroups = kPeerThreads / kPartLanes;

// Reduces the rows of 32 columns within the block, then across ranks as above, one number per thread.
__global__ void __launch_bounds__(kPeerThreads)
    add_parts_kernel(const __grid_constant__ Peers p, const float* parts, float* x, int count, int cols) {
  __shared__ float group_sum[kPartGroups][kPartCols];
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = sums_so_far(p) + 1;
  const int first = static_cast<int>(blockIdx.x) * kPartCols;
  if (first < cols) {
    const int lane = threadIdx.x % kPartLanes, group = threadIdx.x / kPartLanes;
    Float4 sum{};
#pragma unroll 9
    for (int i = group; i < count; i += kPartGroups) {
      const Float4 v = load4(parts + static_cast<int64_t>(i) * cols + first + lane * 4);
#pragma unroll
      for (int e = 0; e < 4; e++) sum.x[e] += v.x[e];
    }
    store4(&group_sum[group][lane * 4], sum);
  }
  __syncthreads();
  if (first < cols && threadIdx.x < kPartCols) {
    const int c = first + static_cast<int>(threadIdx.x);
    const float before = x[c];
    float own = 0;
#pragma unroll
    for (int i = 0; i < kPartGroups; i++) own += group_sum[i][threadIdx.x];
    const auto number_at = [&](int owner, int from) {
      return reinterpret_cast<volatile uint64_t*>(mail_of(p, owner, from, times)) + c;
    };
    for (int to = 0; to < p.size; to++) {
      if (to != p.rank) *number_at(to, p.rank) = flagged(__float_as_uint(own), times);
    }
    float sum = 0;
    for (int from = 0; from < p.size; from++) {
      Patience patience;
      uint64_t number = flagged(__float_as_uint(own), times);
      if (from != p.rank) {
        do number = *number_at(p.rank, from);
        while (!has_come(number, times) && !patience.ends(p, from));
      }
      sum += __uint_as_float(static_cast<uint32_t>(number));
    }
    x[c] = before + sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) sums_so_far(p) = times;
}

// All-reduces in a software pipeline: one piece is pushed while the one before is awaited and reduced.
template <class T>
__global__ void __launch_bounds__(kPeerThreads)
    one_shot_kernel(const __grid_constant__ Peers p, const uint4* partial, float* x, int64_t count) {
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = sums_so_far(p) + 1, met = times_met(p, Meeting::pushed);
  const Words words(count);
  const int pieces = words.pieces();
  const auto push = [&](int piece) {
    for (int to = 0; to < p.size; to++) {
      if (to == p.rank) continue;
      uint4* const inbox = inbox_of(p, to, p.rank, times);
      for_words(words.piece(piece), [&](int64_t at) { inbox[at] = partial[at]; });
    }
    tell(p, Meeting::pushed, met + static_cast<uint32_t>(piece) + 1);
  };
  if (pieces > 0) push(0);
  for (int piece = 0; piece < pieces; piece++) {
    if (piece + 1 < pieces) push(piece + 1);
    wait_for_all(p, Meeting::pushed, met + static_cast<uint32_t>(piece) + 1);
    for_words(words.piece(piece), [&](int64_t at) {
      float sum[kOfWord<T>] = {};
      sum_at<T>(p, partial, inbox_of(p, p.rank, 0, times), at, sum);
      add_to<T>(x, at, sum);
    });
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    sums_so_far(p) = times;
    times_met(p, Meeting::pushed) = met + static_cast<uint32_t>(pieces);
  }
}

template <class T>
__global__ void __launch_bounds__(kPeerThreads)
    two_shot_kernel(const __grid_constant__ Peers p, const uint4* partial, float* x, int64_t count) {
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = sums_so_far(p) + 1;
  const uint32_t pushed = times_met(p, Meeting::pushed) + 1, summed = times_met(p, Meeting::summed) + 1;
  const Words words(count);
  const bool takes_part = words.first < words.last;
  const int64_t half = times % 2 * p.capacity;
  if (takes_part) {
    for (int to = 0; to < p.size; to++) {
      if (to == p.rank) continue;
      uint4* const inbox = inbox_of(p, to, p.rank, times);
      for_words(Words(words, to, p.size), [&](int64_t at) { inbox[at] = partial[at]; });
    }
    tell(p, Meeting::pushed, pushed);
    wait_for_all(p, Meeting::pushed, pushed);
    for_words(Words(words, p.rank, p.size), [&](int64_t at) {
      float sum[kOfWord<T>] = {};
      sum_at<T>(p, partial, inbox_of(p, p.rank, 0, times), at, sum);
      const uint4 word = rounded_word<T>(sum);
      for (int to = 0; to < p.size; to++) p.sums[to][half + at] = word;
    });
    tell(p, Meeting::summed, summed);
    wait_for_all(p, Meeting::summed, summed);
    for_words(words, [&](int64_t at) {
      float sum[kOfWord<T>] = {};
      add_word<T>(sum, __ldcv(p.sums[p.rank] + half + at));
      add_to<T>(x, at, sum);
    });
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  sums_so_far(p) = times;
  if (!takes_part) return;
  times_met(p, Meeting::pushed) = pushed;
  times_met(p, Meeting::summed) = summed;
}

// Gathers; blocks stride over the rows.
__global__ void __launch_bounds__(kPeerThreads)
    gather_kernel(const __grid_constant__ Peers p, const float* part, int64_t rows, int64_t cols,
                  float* whole, int64_t stride, bool fours) {
  pdl_launch_next();
  pdl_wait();
  const uint32_t times = times_met(p, Meeting::gathered) + 1;
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
  if (p.rank != 0 && threadIdx.x == 0) publish(flag_of(p, 0, Meeting::gathered, blockIdx.x, p.rank), times);
  if (p.rank == 0) wait_for_all(p, Meeting::gathered, times);
  __syncthreads();
  if (threadIdx.x == 0) times_met(p, Meeting::gathered) = times;
}

}  // namespace

void peer_add_sum(const Queue& queue, const Peers& peers, const Tensor& partial, const Tensor& x,
                  SumWay way) {
  const auto bytes = static_cast<int64_t>(size_of(partial.dtype)) * partial.count();
  const int64_t words = bytes / static_cast<int64_t>(sizeof(uint4));
  FULMAR_CHECK(bytes % static_cast<int64_t>(sizeof(uint4)) == 0 && words <= peers.capacity);
  FULMAR_CHECK(partial.contiguous() && x.contiguous() && x.count() == partial.count());
  FULMAR_CHECK(way != SumWay::library && (way != SumWay::flagged || words <= peers.flagged_capacity));
  const auto run = [&](auto sample) {
    using T = decltype(sample);
    const auto kernel = way == SumWay::flagged    ? flagged_sum_kernel<T>
                        : way == SumWay::one_shot ? one_shot_kernel<T>
                                                  : two_shot_kernel<T>;
    launch(queue, kernel, dim3(kPeerBlocks), dim3(kPeerThreads), 0, peers, partial.as<const uint4>(),
           x.as<float>(), words);
  };
  if (partial.dtype == DType::f32) return run(0.0f);
  with_activation(partial.dtype, run);
}

void add_library_sum(const Queue& queue, const Tensor& sum, const Tensor& x) {
  const int64_t bytes = static_cast<int64_t>(size_of(sum.dtype)) * sum.count(), word = sizeof(uint4);
  FULMAR_CHECK(bytes % word == 0 && x.count() == sum.count() && x.contiguous() && sum.contiguous());
  const auto run = [&](auto sample) {
    using T = decltype(sample);
    launch(queue, add_words_kernel<T>, dim3(8 * kPeerBlocks), dim3(kPeerThreads), 0, sum.as<const uint4>(),
           x.as<float>(), bytes / word);
  };
  if (sum.dtype == DType::f32) return run(0.0f);
  with_activation(sum.dtype, run);
}

bool suits_add_parts(const Peers& peers, const Tensor& parts) {
  return parts.dtype == DType::f32 && parts.contiguous() && parts.cols % kPartCols == 0 &&
         parts.cols <= int64_t{kPeerBlocks} * kPartCols && parts.cols <= 4 * peers.flagged_capacity;
}

void peer_add_parts(const Queue& queue, const Peers& peers, const Tensor& parts, const Tensor& x) {
  FULMAR_CHECK(suits_add_parts(peers, parts) && x.count() == parts.cols);
  launch(queue, add_parts_kernel, dim3(kPeerBlocks), dim3(kPeerThreads), 0, peers, parts.as<const float>(),
         x.as<float>(), static_cast<int>(parts.rows), static_cast<int>(parts.cols));
}

void peer_gather(const Queue& queue, const Peers& peers, const Tensor& part, int64_t first,
                 const Tensor& whole) {
  FULMAR_CHECK(part.dtype == DType::f32 && part.contiguous() && whole.stride >= first + part.cols);
  const bool fours = part.cols % 4 == 0 && first % 4 == 0 && whole.stride % 4 == 0;
  launch(queue, gather_kernel, dim3(kPeerBlocks), dim3(kPeerThreads), 0, peers, part.as<const float>(),
         part.rows, part.cols, whole.as<float>() + first, whole.stride, fours);
}

}  // namespace fulmar::gpu
