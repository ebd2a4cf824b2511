#include "app/bench/bench_sums.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "ops/device.h"
#include "ranks/host_collective.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRows[] = {1, 8, 32, 64, 128, 320, 960, 2048, 4096};
constexpr int64_t kMostRows = 4096;
constexpr int kCalls = 48;     // of a step
constexpr int kWarmSteps = 3;  // until a backend replays what it has captured
constexpr int kRounds = 5;

struct Way {
  const char* name;
  std::optional<SumWay> way;
};
constexpr Way kWays[] = {{"sum", {}},
                         {"sum, flagged", SumWay::flagged},
                         {"sum, one-shot", SumWay::one_shot},
                         {"sum, two-shot", SumWay::two_shot},
                         {"sum, library", SumWay::library}};

// Returns one rank's times, for each number of rows. All ranks run this at once.
Result<std::vector<Spread>> time_rank(Ops& ops, Collective& ranks, int64_t width, bool records) {
  const DType dtype = ops.activation_dtype();
  const auto count = static_cast<size_t>(kMostRows * width);
  FULMAR_ASSIGN(const Buffer addends, ops.allocate(count * size_of(dtype)));
  FULMAR_ASSIGN(const Buffer sums, ops.allocate(count * sizeof(float)));
  const Tensor partial = addends.matrix(dtype, kMostRows, width);
  const Tensor x = sums.matrix(DType::f32, kMostRows, width);
  std::vector<Spread> times;
  for (const int64_t rows : kRows) {
    // Each size has a step with its own number of rows: captured steps are told apart by that.
    Batch batch;
    batch.rows = batch.sequences = static_cast<int64_t>(times.size()) + 1;
    const auto step = [&] {
      const auto body = [&] {
        for (int i = 0; i < kCalls; i++) ranks.add_sum(partial.slice_rows(0, rows), x.slice_rows(0, rows));
      };
      records ? ops.run_step(batch, body) : body();
      ranks.check();
      ops.synchronise();
    };
    for (int i = 0; i < kWarmSteps; i++) step();
    std::vector<double> taken;
    for (int round = 0; round < kRounds; round++) {
      const auto start = Clock::now();
      step();
      taken.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kCalls);
    }
    times.push_back(spread_of(std::move(taken)));
  }
  return times;
}

}  // namespace

Result<std::vector<IslandLine>> bench_sums(std::span<Ops* const> group, int64_t width) {
  std::vector<IslandLine> lines;
  for (const Way& way : kWays) {
    const CollectiveOptions options{.rows = kMostRows, .width = width};
    FULMAR_ASSIGN(auto ends, way.way ? open_sums(group, options, *way.way)
                                     : group.front()->collectives_of(group, options));
    if (ends.empty() && way.way) continue;
    if (ends.empty()) ends = make_host_collectives(group, options);
    // The library synchronises with other ranks when its sums are captured: it is timed without graphs.
    const bool records = ends.front()->recordable() && way.way != SumWay::library;
    const auto time = [&](size_t rank) { return time_rank(*group[rank], *ends[rank], width, records); };
    std::vector<std::future<Result<std::vector<Spread>>>> others;
    for (size_t i = 1; i < group.size(); i++) {
      others.push_back(std::async(std::launch::async, time, i));
    }
    auto first = time(0);
    for (auto& other : others) FULMAR_TRY(other.get());
    FULMAR_TRY(first);
    for (size_t i = 0; i < first->size(); i++) {
      const auto bytes = static_cast<double>(kRows[i] * width) *
                         static_cast<double>(size_of(group.front()->activation_dtype()));
      lines.push_back({way.name, kRows[i], 1, (*first)[i], bytes, 0});
    }
  }
  return lines;
}

}  // namespace fulmar
