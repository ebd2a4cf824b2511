#include "app/bench/bench_islands.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <tuple>

#include "cases/islands.h"
#include "model/memory_plan.h"
#include "model/state_pool.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLayers = 4;
constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.01;
constexpr int kMostCalls = 400;           // of a round
constexpr int64_t kPeriod = 1048573;      // of the random numbers; no width divides it
constexpr double kBytesPerElement = 2.0;  // of weights and activations, as far as bytes are counted

double seconds_of(Ops& ops, int calls, const std::function<void()>& call) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; i++) call();
  ops.synchronise();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

Spread time_calls(Ops& ops, const std::function<void()>& call) {
  for (int i = 0; i < kLayers; i++) call();
  ops.synchronise();
  const double once = std::max(1e-6, seconds_of(ops, kLayers, call));
  const int calls = std::clamp(static_cast<int>(kRoundSeconds / once), 1, kMostCalls);
  std::vector<double> taken;
  for (int round = 0; round < kRounds; round++) taken.push_back(seconds_of(ops, calls, call));
  return spread_of(std::move(taken));
}

// Random numbers, and tensors made of them on a backend. The first failure is kept;
// what is made after it is empty.
class Stock final : public cases::WeightSource {
 public:
  explicit Stock(Ops& ops) : ops_(ops), numbers_(kPeriod) {
    std::mt19937 random(3);
    for (float& x : numbers_) x = static_cast<float>(random() * 0x1p-32);
  }
  Ops& ops() { return ops_; }
  const Status& status() const { return status_; }
  void note(const Status& status) {
    if (status_.ok() && !status.ok()) status_ = status;
  }

  Tensor tensor(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) {
    std::vector<float> values = some(rows * cols, low, high);
    std::mt19937 random(5);
    const auto limit = static_cast<uint32_t>(zeros * 0xffffffffu);
    if (zeros > 0) {
      for (float& x : values) x = random() < limit ? 0.0f : x;
    }
    auto buffer = ops_.allocate(values.size() * size_of(dtype));
    if (!buffer.ok()) return note(buffer.error()), Tensor{};
    std::vector<std::byte> host(values.size() * size_of(dtype));
    from_f32(values, dtype, host.data());
    ops_.write(buffer->data(), host.data(), host.size());
    buffers_.push_back(std::move(*buffer));
    return buffers_.back().matrix(dtype, rows, cols);
  }
  Weight weight(int64_t out, int64_t in, WeightRole role) override {
    constexpr double kScale = 0.03;
    auto& host = host_.emplace_back(static_cast<size_t>(out * in) * size_of(DType::f16));
    from_f32(some(out * in, -kScale, kScale), DType::f16, host.data());
    const HostMatrix matrix{host.data(), DType::f16, out, in, in, 1};
    auto made = ops_.import_weight(matrix, role);
    if (ops_.import_bytes(matrix, role) > 0) host_.pop_back();
    if (!made.ok()) return note(made.error()), Weight{};
    return *made;
  }
  Tensor vector(int64_t rows, int64_t cols, double low, double high) override {
    auto made = ops_.import_vector(some(rows * cols, low, high), rows, cols);
    if (!made.ok()) return note(made.error()), Tensor{};
    return *made;
  }
  Norm norm(int64_t cols) override { return {vector(1, cols, 0.5, 1.5), vector(1, cols, -0.3, 0.3)}; }

 private:
  std::vector<float> some(int64_t count, double low, double high) const {
    std::vector<float> values(static_cast<size_t>(count));
    const auto from = static_cast<float>(low), width = static_cast<float>(high - low);
    for (size_t i = 0; i < values.size(); i++) values[i] = from + width * numbers_[i % kPeriod];
    return values;
  }

  Ops& ops_;
  std::vector<float> numbers_;
  std::vector<Buffer> buffers_;
  std::deque<std::vector<std::byte>> host_;  // of weights that a backend borrows
  Status status_;
};

// The tensors of one shape, shared by all islands: each takes what it needs from the beginning, and the next
// one gets the same again.
class Inputs {
 public:
  explicit Inputs(Ops& ops) : stock_(ops) {}
  const Status& status() const { return stock_.status(); }
  const cases::CaseLayer::Tensors& given() const { return given_; }

  void clear() { given_.clear(), taken_.clear(); }
  void give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) {
    const Kind kind{rows, cols, dtype, low, high, zeros};
    std::vector<Tensor>& made = made_[kind];
    const size_t index = taken_[kind]++;
    if (index == made.size()) made.push_back(stock_.tensor(rows, cols, dtype, low, high, zeros));
    given_.push_back(made[index]);
  }

 private:
  using Kind = std::tuple<int64_t, int64_t, DType, double, double, double>;
  Stock stock_;
  std::map<Kind, std::vector<Tensor>> made_;
  std::map<Kind, size_t> taken_;
  cases::CaseLayer::Tensors given_;
};

// One of several layers, run one after the other: weights of its own, inputs shared with the others.
class BenchStage final : public cases::CaseLayer {
 public:
  BenchStage(Ops& ops, const ModelConfig& config, const cases::LayerShape& shape, double zeros, int64_t layer)
      : stock_(ops), version_(config.version), shape_(shape), zeros_(zeros), layer_(layer) {}

  const Status& status() const { return stock_.status(); }
  // Sets the inputs of the next island; null: it is another layer's.
  void use(const Batch& batch, const State& state, Inputs* inputs) {
    batch_ = batch;
    state_ = state;
    inputs_ = inputs;
  }

  Ops& ops() override { return stock_.ops(); }
  int version() const override { return version_; }
  double zeros() const override { return zeros_; }
  const cases::LayerShape& shape() const override { return shape_; }
  const Batch& batch() const override { return batch_; }
  cases::WeightSource& weights() override { return stock_; }
  StateField field(size_t index) const override { return state_->field(layer_, index); }
  void give(int64_t rows, int64_t cols, DType dtype, double low, double high, double zeros) override {
    if (inputs_ != nullptr) inputs_->give(rows, cols, dtype, low, high, zeros);
  }
  void give_first_row_of(size_t) override { give(1, shape_.width(), DType::f32, -1, 1, 0); }
  void forget(const Tensor&) override {}
  void add_pending(const Tensor&, const Tensor&) override {}
  void finished(const Status& status) override { stock_.note(status); }

 private:
  Stock stock_;
  int version_;
  cases::LayerShape shape_;
  double zeros_;
  int64_t layer_;
  Batch batch_;
  std::optional<State> state_;
  Inputs* inputs_ = nullptr;
};

cases::LayerShape layer_shape(const ModelConfig& config) {
  cases::LayerShape shape{config.n_head, config.head_size, config.n_ffn};
  shape.rank_w = config.rank_w;
  shape.rank_a = config.rank_a;
  shape.rank_v = std::max<int64_t>(config.rank_v, 8);
  shape.rank_g = config.rank_g;
  shape.rank_mix = config.rank_mix;
  shape.rank_decay = config.rank_decay;
  return shape;
}

// The islands over one step, with the bytes and operations of each.
class IslandBench {
 public:
  IslandBench(std::vector<std::unique_ptr<BenchStage>>& stages, const PrefillShape& shape)
      : ops_(stages.front()->ops()), stages_(stages), shape_(shape), inputs_(ops_) {
    for (int64_t s = 0; s < shape.sequences; s++) {
      for (int64_t t = 0; t < shape.tokens; t++) token_.push_back(static_cast<int32_t>(s * 7919 + t) % 1000);
      start_.push_back(static_cast<int32_t>(token_.size()));
      slot_.push_back(static_cast<int32_t>(s));
    }
  }
  const Status& status() const { return inputs_.status(); }

  Status run(const cases::Island& island, const State& state, const std::string& name,
             std::vector<IslandLine>& lines) {
    const Batch batch = ops_.begin_step({token_, start_, slot_, {}}, state);
    inputs_.clear();
    std::vector<cases::Island::Run> runs;
    for (auto& stage : stages_) {
      stage->use(batch, state, runs.empty() ? &inputs_ : nullptr);
      runs.push_back(island.prepare(*stage));
      FULMAR_TRY(stage->status());
    }
    FULMAR_TRY(inputs_.status());
    const cases::LayerShape& layer = stages_.front()->shape();
    const cases::Work work = island.work(layer);
    const auto rows = static_cast<double>(batch.rows);
    const auto cells = static_cast<double>(shape_.sequences * layer.width() * layer.head_size);
    const auto cell_bytes = static_cast<double>(work.states ? size_of(state.layout.wkv_dtype) : 0);
    IslandLine line{name, shape_.sequences, shape_.tokens, {}, 0, 2 * rows * work.parameters};
    line.bytes =
        kBytesPerElement * (work.parameters + work.units * rows * static_cast<double>(layer.width())) +
        2 * cell_bytes * cells;
    size_t next = 0;
    line.seconds = time_calls(ops_, [&] { runs[next++ % runs.size()](inputs_.given(), cases::Body::own); });
    lines.push_back(std::move(line));
    return {};
  }

 private:
  Ops& ops_;
  std::vector<std::unique_ptr<BenchStage>>& stages_;
  const PrefillShape& shape_;
  Inputs inputs_;
  std::vector<int32_t> token_, start_{0}, slot_;
};

bool is_recurrence(const cases::Island& island) { return island.name.starts_with("recur"); }

}  // namespace

Result<std::vector<IslandLine>> bench_islands(Ops& ops, const ModelConfig& config, double zeros,
                                              const std::vector<PrefillShape>& shapes) {
  std::vector<std::unique_ptr<BenchStage>> stages;
  for (int64_t layer = 0; layer < kLayers; layer++) {
    stages.push_back(std::make_unique<BenchStage>(ops, config, layer_shape(config), zeros, layer));
  }
  std::vector<IslandLine> lines;
  for (const PrefillShape& shape : shapes) {
    StateLayout layout = state_layout_of(config, ops);
    layout.n_layer = kLayers;
    layout.wkv_dtype = DType::f32;
    FULMAR_ASSIGN(const StatePool states, StatePool::make(ops, layout, shape.sequences));
    std::optional<StatePool> half_states;
    if (ops.traits().half_states) {
      layout.wkv_dtype = DType::f16;
      FULMAR_ASSIGN(half_states, StatePool::make(ops, layout, shape.sequences));
    }
    IslandBench bench(stages, shape);
    for (const cases::Island& island : cases::islands()) {
      if (island.version != config.version || !island.work) continue;
      FULMAR_TRY(bench.run(island, states.view(), island.name, lines));
      if (half_states && is_recurrence(island)) {
        FULMAR_TRY(bench.run(island, half_states->view(), island.name + " fp16", lines));
      }
    }
    for (const cases::Island& product : cases::products()) {
      FULMAR_TRY(bench.run(product, states.view(), product.name, lines));
    }
  }
  return lines;
}

}  // namespace fulmar
