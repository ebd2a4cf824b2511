// Loops that do nothing but load, copy, or multiply and add.
#include "cpu/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "cpu/simd_targets.h"

// Highway's loop over targets must come before the per-target headers.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/ceilings.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kStreams = 4;   // read side by side
constexpr int kSecondLevel = 2;  // the first level tracks too few misses to keep memory busy
constexpr size_t kPrefetchFloats = 512;
constexpr size_t kSums = 12;  // enough to hide the latency of a multiply-add, few enough for 16 registers

// Sums `count` floats, a multiple of kStreams * 16.
float ReadSum(const float* from, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const size_t part = count / kStreams;
  hn::Vec<decltype(d)> sum[kStreams];
  for (auto& s : sum) s = hn::Zero(d);
  for (size_t i = 0; i + 16 <= part; i += 16) {
    for (size_t s = 0; s < kStreams; ++s) {
      __builtin_prefetch(from + s * part + i + kPrefetchFloats, 0, kSecondLevel);
      for (size_t j = 0; j < 16; j += lanes) {
        sum[s] = hn::Add(sum[s], hn::LoadU(d, from + s * part + i + j));
      }
    }
  }
  for (size_t s = 1; s < kStreams; ++s) sum[0] = hn::Add(sum[0], sum[s]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

// Runs `rounds` times kSums fused multiply-adds; returns their sum so that none can be dropped.
float MultiplyAdd(size_t rounds, float scale) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sum[kSums];
  for (size_t i = 0; i < kSums; ++i) sum[i] = hn::Set(d, static_cast<float>(i));
  const auto factor = hn::Set(d, scale);
  const auto addend = hn::Set(d, 0.25f);
  for (size_t round = 0; round < rounds; ++round) {
    for (auto& s : sum) s = hn::MulAdd(s, factor, addend);
  }
  for (size_t i = 1; i < kSums; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

size_t FlopsPerRound() { return 2 * kSums * hn::Lanes(hn::ScalableTag<float>()); }

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar {

HWY_EXPORT(ReadSum);
HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(FlopsPerRound);

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlockFloats = 64 * 1024;  // 256 KiB: several pages of every stream
constexpr size_t kRounds = 400'000;
constexpr int kMostRounds = 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the shortest duration of `round`, repeated until `seconds` are over but at least three times.
template <class Round>
double best_of(double seconds, Round round) {
  const auto begin = Clock::now();
  double best = 1e30;
  for (int i = 0; i < 3 || (i < kMostRounds && seconds_since(begin) < seconds); ++i) {
    const auto start = Clock::now();
    round();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

double measure_read(ThreadPool& pool, const float* buffer, size_t blocks, double seconds) {
  std::atomic<float> kept = 0;  // the sums must be used, or the loads could go
  const double best = best_of(seconds, [&] {
    pool.parallel_for(static_cast<int64_t>(blocks), 1, [&](int64_t begin, int64_t end) {
      float sum = 0;
      for (int64_t b = begin; b < end; ++b) {
        sum += HWY_DYNAMIC_DISPATCH(ReadSum)(buffer + static_cast<size_t>(b) * kBlockFloats, kBlockFloats);
      }
      kept.store(sum, std::memory_order_relaxed);
    });
  });
  return static_cast<double>(blocks * kBlockFloats * sizeof(float)) / best / 1e9;
}

// Returns the rate of copying the first half of the blocks to the second.
double measure_copy(ThreadPool& pool, float* buffer, size_t blocks, double seconds) {
  const size_t half = blocks / 2;
  const double best = best_of(seconds, [&] {
    pool.parallel_for(static_cast<int64_t>(half), 1, [&](int64_t begin, int64_t end) {
      const size_t first = static_cast<size_t>(begin) * kBlockFloats;
      std::memcpy(buffer + half * kBlockFloats + first, buffer + first,
                  static_cast<size_t>(end - begin) * kBlockFloats * sizeof(float));
    });
  });
  return 2.0 * static_cast<double>(half * kBlockFloats * sizeof(float)) / best / 1e9;
}

double measure_multiply(ThreadPool& pool, double seconds) {
  std::atomic<float> kept = 0;
  const int64_t parts = 4 * pool.size();
  const double best = best_of(seconds, [&] {
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      const size_t rounds = static_cast<size_t>(end - begin) * kRounds;
      kept.store(HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds, 0.75f), std::memory_order_relaxed);
    });
  });
  const auto rounds = static_cast<double>(parts) * static_cast<double>(kRounds);
  return rounds * static_cast<double>(HWY_DYNAMIC_DISPATCH(FlopsPerRound)()) / best / 1e9;
}

}  // namespace

Result<Ceilings> measure_ceilings(ThreadPool& pool, const CeilingOptions& options) {
  constexpr size_t kBlockBytes = kBlockFloats * sizeof(float);
  const size_t blocks = std::max<size_t>(options.buffer_bytes / kBlockBytes, 2);
  // One more block, so that prefetches ahead of the last one stay inside.
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(64, (blocks + 1) * kBlockBytes),
                                                           &std::free);
  if (buffer == nullptr) {
    return Error{ErrorKind::resource, "cannot allocate " + std::to_string(blocks * kBlockBytes) +
                                          " bytes to measure memory speed"};
  }
  std::memset(buffer.get(), 0, (blocks + 1) * kBlockBytes);
  auto* const floats = static_cast<float*>(buffer.get());
  const double third = options.seconds / 3;
  return Ceilings{.read_gbs = measure_read(pool, floats, blocks, third),
                  .copy_gbs = measure_copy(pool, floats, blocks, third),
                  .gflops = measure_multiply(pool, third)};
}

}  // namespace fulmar
#endif
