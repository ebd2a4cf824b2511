// Matrix products of the released model shapes against the ceilings of this machine, measured in the same
// run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cpu/ceilings.h"
#include "cpu/linear.h"
#include "cpu/thread_pool.h"

namespace fulmar {
namespace {

ThreadPool& pool() {
  static ThreadPool shared(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  return shared;
}

Ceilings& ceilings() {
  static Ceilings measured;
  return measured;
}

// Weights with every value small and normal, whatever the type.
std::vector<uint16_t> plausible_bits(size_t bytes) {
  std::vector<uint16_t> bits((bytes + 1) / 2);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(0x2c00 + i * 40503u % 1024);
  return bits;
}

// The matrices of one model, each with memory of its own, so that a pass over them reads all of it.
class Matrices {
 public:
  explicit Matrices(std::span<const Weight> shapes) : weights_(shapes.begin(), shapes.end()) {
    int64_t widest_in = 0, widest_out = 0;
    for (Weight& weight : weights_) {
      bits_.push_back(plausible_bits(weight.bytes()));
      weight.data = bits_.back().data();
      bytes_ += weight.bytes();
      parameters_ += weight.out * weight.in;
      widest_in = std::max(widest_in, weight.in);
      widest_out = std::max(widest_out, weight.out);
    }
    in_width_ = widest_in;
    out_width_ = widest_out;
  }

  // Every matrix times `rows` rows, one product after the other, as layers follow each other.
  void multiply(int64_t rows) {
    in_.resize(static_cast<size_t>(rows * in_width_), 0.5f);
    out_.resize(static_cast<size_t>(rows * out_width_));
    for (const Weight& weight : weights_) {
      linear(pool(), {in_.data(), DType::f32, rows, weight.in, in_width_}, weight,
             {out_.data(), DType::f32, rows, weight.out, out_width_});
    }
  }

  double bytes() const { return static_cast<double>(bytes_); }
  double flops(int64_t rows) const {
    return 2.0 * static_cast<double>(parameters_) * static_cast<double>(rows);
  }

 private:
  std::vector<Weight> weights_;
  std::vector<std::vector<uint16_t>> bits_;
  std::vector<float> in_, out_;
  size_t bytes_ = 0;
  int64_t parameters_ = 0, in_width_ = 0, out_width_ = 0;
};

// The matrices of an RWKV-7 of 0.4B parameters: 24 layers of width 1024, and the head.
std::vector<Weight> shapes_of_0b4(DType dtype) {
  std::vector<Weight> shapes;
  const auto add = [&](int64_t out, int64_t in) { shapes.push_back({.dtype = dtype, .out = out, .in = in}); };
  constexpr int64_t kWidth = 1024;
  for (int layer = 0; layer < 24; ++layer) {
    for (int i = 0; i < 4; ++i) add(kWidth, kWidth);
    for (int64_t rank : {64, 64, 32, 128}) {
      add(rank, kWidth);
      add(kWidth, rank);
    }
    add(4 * kWidth, kWidth);
    add(kWidth, 4 * kWidth);
  }
  add(65536, kWidth);
  return shapes;
}

void report(benchmark::State& state, double bytes, double flops) {
  using benchmark::Counter;
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = Counter(bytes * runs / 1e9, Counter::kIsRate);
  state.counters["GFLOP/s"] = Counter(flops * runs / 1e9, Counter::kIsRate);
  state.counters["%read"] = Counter(bytes * runs / 1e9 / ceilings().read_gbs * 100, Counter::kIsRate);
  state.counters["%fma"] = Counter(flops * runs / 1e9 / ceilings().gflops * 100, Counter::kIsRate);
}

// Arguments: weight kind, rows.
void BM_Model(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const int64_t rows = state.range(1);
  Matrices matrices(shapes_of_0b4(dtype));
  for (auto _ : state) matrices.multiply(rows);
  report(state, matrices.bytes(), matrices.flops(rows));
}
BENCHMARK(BM_Model)
    ->ArgNames({"dtype", "rows"})
    ->ArgsProduct({{0, 1, 2}, {1}})
    ->ArgsProduct({{1}, {2, 4, 8, 16, 32}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Repetitions(5)
    ->ReportAggregatesOnly()
    ->MinTime(0.2);

// Arguments: outputs, inputs, rows.
void BM_Product(benchmark::State& state) {
  const Weight shape{.dtype = DType::f16, .out = state.range(0), .in = state.range(1)};
  Matrices matrices({&shape, 1});
  for (auto _ : state) matrices.multiply(state.range(2));
  report(state, matrices.bytes(), matrices.flops(state.range(2)));
}
BENCHMARK(BM_Product)
    ->ArgNames({"out", "in", "rows"})
    ->Args({1024, 1024, 1})
    ->Args({64, 1024, 1})
    ->Args({1024, 64, 1})
    ->Args({1024, 1024, 16})
    ->Args({64, 1024, 16})
    ->Args({1024, 1024, 512})
    ->Args({4096, 1024, 512})
    ->Args({1024, 4096, 512})
    ->Args({64, 1024, 512})
    ->Args({1024, 64, 512})
    ->Args({480, 4096, 512})
    ->Args({65536, 1024, 64})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond)
    ->MinTime(0.2);

// What one parallel section costs when there is nothing to do in it.
void BM_Section(benchmark::State& state) {
  for (auto _ : state) pool().parallel_for(pool().size(), 1, [](int64_t, int64_t) {});
}
BENCHMARK(BM_Section)->UseRealTime();

}  // namespace
}  // namespace fulmar

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto measured = fulmar::measure_ceilings(fulmar::pool());
  if (!measured) {
    std::fprintf(stderr, "%s\n", measured.error().text.c_str());
    return 4;
  }
  fulmar::ceilings() = *measured;
  std::printf("ceilings with %d threads: read %.1f GB/s, multiply-add %.0f GFLOP/s\n", fulmar::pool().size(),
              measured->read_gbs, measured->gflops);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
