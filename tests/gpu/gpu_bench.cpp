// Times whole steps of a synthetic model on the GPU, and each island of one layer alone.
//   fulmar_gpu_bench PRESET ZEROS decode:B:fp32|fp16 ... prefill:SxT ... kernels:ROWSxLENGTH ...
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "files/synthetic.h"
#include "model/model.h"
#include "model/state_pool.h"
#include "ops/device.h"

namespace fulmar {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Timing {
  double median, least, most;  // seconds for one call
};

Timing time_calls(Ops& ops, const std::function<void()>& call, double budget) {
  for (int i = 0; i < 4; i++) call();
  ops.synchronise();
  const double start = seconds();
  call();
  ops.synchronise();
  const double once = std::max(1e-6, seconds() - start);
  const int each = std::clamp(static_cast<int>(budget / 5 / once), 1, 400);
  std::vector<double> taken;
  for (int round = 0; round < 5; round++) {
    const double begin = seconds();
    for (int i = 0; i < each; i++) call();
    ops.synchronise();
    taken.push_back((seconds() - begin) / each);
  }
  std::sort(taken.begin(), taken.end());
  return {taken[2], taken.front(), taken.back()};
}

struct StepArrays {
  std::vector<int32_t> token, start{0}, slot, wanted;
  StepInput input() const { return {token, start, slot, wanted}; }
};

StepArrays step_of(int64_t sequences, int64_t length, int64_t vocab) {
  StepArrays out;
  std::mt19937 random(7);
  for (int64_t s = 0; s < sequences; s++) {
    for (int64_t t = 0; t < length; t++) {
      out.token.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
    }
    out.start.push_back(static_cast<int32_t>(out.token.size()));
    out.slot.push_back(static_cast<int32_t>(sequences - 1 - s));
    out.wanted.push_back(out.start.back() - 1);
  }
  return out;
}

void bench_steps(Ops& ops, Model& model, const std::string& label, int64_t sequences, int64_t length,
                 bool half) {
  StateLayout layout = model.state_layout();
  layout.wkv_dtype = half ? DType::f16 : DType::f32;
  auto pool = StatePool::make(ops, layout, sequences);
  if (!pool.ok()) {
    std::printf("%-22s %s\n", label.c_str(), pool.error().text.c_str());
    return;
  }
  const StepArrays arrays = step_of(sequences, length, model.config().vocab);
  Tensor logits;
  const auto step = [&] { logits = model.forward(arrays.input(), pool->view()); };
  const Timing timing = time_calls(ops, step, length > 1 ? 0.6 : 0.4);
  std::vector<float> row(static_cast<size_t>(logits.cols));
  ops.read(row.data(), logits.row<float>(logits.rows - 1), row.size() * sizeof(float));
  double mean = 0, squares = 0;
  for (const float x : row) mean += x / static_cast<double>(row.size());
  for (const float x : row) squares += (x - mean) * (x - mean) / static_cast<double>(row.size());
  const auto rows = static_cast<double>(sequences * length);
  std::printf("%-22s %9.3f ms (%.3f..%.3f) %10.0f tok/s  logits std %.3f\n", label.c_str(),
              timing.median * 1e3, timing.least * 1e3, timing.most * 1e3, rows / timing.median,
              std::sqrt(squares));
  std::fflush(stdout);
}

// Layers of random weights, enough of them that none stays in the cache.
class Layers {
 public:
  Layers(Ops& ops, const SyntheticSpec& spec, int64_t rows) : ops_(ops), spec_(spec), c_(spec.n_head * 64) {
    std::mt19937 random(3);
    bits_.resize(static_cast<size_t>(c_ * spec.n_ffn));
    for (uint16_t& x : bits_) x = static_cast<uint16_t>((random() & 0x83ffu) | (8 + random() % 3) << 10);
    vector_.resize(static_cast<size_t>(6 * c_));
    for (float& x : vector_) x = static_cast<float>(random() % 1000) / 1000.0f;
    for (int i = 0; i < kCount; i++) make_layer();
    x_ = tensor(rows, c_, DType::f32);
    for (Tensor* t : {&pending, &v_first, &y, &p.r, &p.k, &p.v, &p.g, &p.u, &p.kk, &p.alpha, &mixed[0],
                      &mixed[1], &mixed[2], &mixed[3], &mixed[4], &mixed[5]}) {
      *t = tensor(rows, c_, DType::f16);
    }
  }

  Tensor tensor(int64_t rows, int64_t cols, DType dtype) {
    buffers_.push_back(ops_.allocate(static_cast<size_t>(rows * cols) * size_of(dtype)).value());
    Tensor out = buffers_.back().matrix(dtype, rows, cols);
    std::vector<uint16_t> host(static_cast<size_t>(rows * cols) * size_of(dtype) / 2);
    for (size_t i = 0; i < host.size(); i++) host[i] = bits_[i % bits_.size()];
    if (dtype == DType::f32) {
      for (size_t i = 1; i < host.size(); i += 2) host[i] = static_cast<uint16_t>(0x3e00 | (host[i] & 0xff));
    }
    ops_.write(out.data, host.data(), host.size() * 2);
    return out;
  }

  static constexpr int kCount = 4;
  std::vector<TimeMix7> att;
  std::vector<ChannelMix7> ffn;
  Tensor x_, pending, v_first, y, mixed[6];
  Projected7 p;

 private:
  Weight weight(int64_t out, int64_t in, WeightRole role) {
    return ops_
        .import_weight({reinterpret_cast<const std::byte*>(bits_.data()), DType::f16, out, in, in, 1}, role)
        .value();
  }
  Tensor vector(int64_t rows) {
    return ops_.import_vector({vector_.data(), static_cast<size_t>(rows * c_)}, rows, c_).value();
  }
  LowRank low_rank(int64_t rank) {
    return {weight(rank, c_, WeightRole::low_rank), weight(c_, rank, WeightRole::low_rank), vector(1)};
  }
  void make_layer() {
    TimeMix7 a;
    a.n_head = spec_.n_head;
    a.head_size = 64;
    a.ln1 = {vector(1), vector(1)};
    a.mix = vector(6);
    for (Weight* w : {&a.receptance, &a.key, &a.value, &a.output})
      *w = weight(c_, c_, WeightRole::projection);
    a.w = low_rank(spec_.rank_w);
    a.a = low_rank(spec_.rank_a);
    a.v = low_rank(spec_.rank_v);
    a.g = low_rank(spec_.rank_g);
    a.k_k = vector(1);
    a.k_a = vector(1);
    a.r_k = vector(1);
    a.ln_x = {vector(1), vector(1)};
    att.push_back(a);
    ChannelMix7 f;
    f.ln2 = {vector(1), vector(1)};
    f.mix = vector(1);
    f.key = weight(spec_.n_ffn, c_, WeightRole::ffn_key);
    f.value = weight(c_, spec_.n_ffn, WeightRole::ffn_value);
    ffn.push_back(f);
  }

  Ops& ops_;
  SyntheticSpec spec_;
  int64_t c_;
  std::vector<uint16_t> bits_;
  std::vector<float> vector_;
  std::vector<Buffer> buffers_;
};

void bench_kernels(Ops& ops, const SyntheticSpec& spec, int64_t sequences, int64_t length) {
  const int64_t rows = sequences * length, c = spec.n_head * 64, f = spec.n_ffn;
  Layers l(ops, spec, rows);
  const StateLayout layout{Layers::kCount, c, spec.n_head, 64, DType::f32, DType::f32};
  auto pool = StatePool::make(ops, layout, sequences);
  if (!pool.ok()) return;
  const State state = pool->view();
  const StepArrays arrays = step_of(sequences, length, spec.vocab);
  const Batch batch = ops.begin_step(arrays.input(), state);
  if (batch.rows != rows) return;
  const Tensor hidden = l.tensor(rows, f, DType::f16), sparse = l.tensor(rows, f, DType::f16);
  {
    std::mt19937 random(1);
    std::vector<uint16_t> host(static_cast<size_t>(rows * f));
    for (uint16_t& x : host) x = random() % 10 == 0 ? static_cast<uint16_t>(0x3000 | (random() & 0x3ff)) : 0;
    ops.write(sparse.data, host.data(), host.size() * 2);
  }
  int turn = 0;
  const auto report = [&](const char* name, double bytes, double flop, const std::function<void(int)>& call) {
    const Timing t = time_calls(
        ops, [&] { call(turn++ % Layers::kCount); }, 0.02);
    std::printf("K %ldx%ld %-14s %8.2f us %7.0f GB/s %7.1f TFLOP/s\n", sequences, length, name,
                t.median * 1e6, bytes / t.median / 1e9, flop / t.median / 1e12);
    std::fflush(stdout);
  };
  const double u = static_cast<double>(rows * c) * 2, square = static_cast<double>(c * c) * 2;
  const double ranks = static_cast<double>(spec.rank_w + spec.rank_a + spec.rank_v + spec.rank_g);
  const double r = static_cast<double>(rows);
  report("enter7", 11 * u, 0,
         [&](int i) { ops.enter7(batch, l.att[i], l.x_, l.pending, state.att_shift(i), l.mixed); });
  report("project7", 3 * square + ranks * c * 4 + 15 * u, r * (3 * square + ranks * c * 4),
         [&](int i) { ops.project7(batch, l.att[i], l.mixed, false, l.v_first, l.p); });
  const double states = static_cast<double>(sequences * c * 64) * 4 * 2;
  report("recur7", states + 7 * u, 0, [&](int i) { ops.recur7(batch, l.att[i], l.p, state.wkv(i), l.y); });
  StateLayout half_layout = layout;
  half_layout.wkv_dtype = DType::f16;
  auto half_pool = StatePool::make(ops, half_layout, sequences);
  if (half_pool.ok()) {
    const State half = half_pool->view();
    report("recur7 fp16", states / 2 + 7 * u, 0,
           [&](int i) { ops.recur7(batch, l.att[i], l.p, half.wkv(i), l.y); });
  }
  report("attend7", states + 9 * u + square, r * square,
         [&](int i) { ops.attend7(batch, l.att[i], l.p, state.wkv(i), l.y, l.pending); });
  report("linear c2c", square + 2 * u, r * square,
         [&](int i) { ops.linear(l.y, l.att[i].output, l.pending); });
  report("linear key", 4 * square, r * 4 * square, [&](int i) { ops.linear(l.y, l.ffn[i].key, hidden); });
  report("linear value", 4 * square, r * 4 * square,
         [&](int i) { ops.linear(hidden, l.ffn[i].value, l.pending); });
  report("value 90% zero", 4 * square, r * 4 * square,
         [&](int i) { ops.linear(sparse, l.ffn[i].value, l.pending); });
  report("activate hidden", 8 * u, 0, [&](int) { ops.activate(hidden, {}, Activation::relu_squared); });
  report("channel_mix7", 8 * square, r * 8 * square,
         [&](int i) { ops.channel_mix7(batch, {}, l.ffn[i], l.x_, l.pending, state.ffn_shift(i)); });
}

int run(int count, char** arguments) {
  if (count < 3) return 2;
  auto opened = open_gpu({});
  if (!opened.ok()) {
    std::printf("skipped: %s\n", opened.error().text.c_str());
    return 0;
  }
  const std::unique_ptr<Ops> ops = std::move(opened).value();
  const auto preset = synthetic_preset(arguments[1]);
  if (!preset) return 2;
  SyntheticSpec spec = *preset;
  spec.ffn_zeros = std::atof(arguments[2]);
  if (spec.n_ffn == 0) spec.n_ffn = 4 * spec.n_head * spec.head_size;
  std::unique_ptr<Model> model;
  for (int i = 3; i < count; i++) {
    const std::string what = arguments[i];
    long sequences = 0, length = 1;
    char kind[8] = "fp32";
    if (std::sscanf(arguments[i], "kernels:%ldx%ld", &sequences, &length) == 2) {
      bench_kernels(*ops, spec, sequences, length);
      continue;
    }
    if (model == nullptr) {
      const double begin = seconds();
      auto checkpoint = synthetic_checkpoint(spec);
      const double made = seconds();
      auto loaded =
          Model::load(std::move(checkpoint), *ops,
                      {.max_rows = 4096, .max_wanted = 1024, .allow_nonfinite = true, .progress = {}});
      if (!loaded.ok()) {
        std::printf("%s\n", loaded.error().text.c_str());
        return 1;
      }
      model = std::move(loaded).value();
      std::printf("%s on %s: made in %.1f s, loaded in %.1f s\n", arguments[1], ops->name().c_str(),
                  made - begin, seconds() - made);
    }
    if (std::sscanf(arguments[i], "decode:%ld:%7s", &sequences, kind) == 2 ||
        std::sscanf(arguments[i], "prefill:%ldx%ld", &sequences, &length) == 2) {
      bench_steps(*ops, *model, what, sequences, length, std::strcmp(kind, "fp16") == 0);
    }
  }
  return 0;
}

}  // namespace
}  // namespace fulmar

int main(int count, char** arguments) { return fulmar::run(count, arguments); }
