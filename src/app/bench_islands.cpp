#include "app/bench_islands.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <random>

#include "model/stack.h"
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

// Where everything that the islands work with lives.
class Stock {
 public:
  explicit Stock(Ops& ops) : ops_(ops), numbers_(kPeriod) {
    std::mt19937 random(3);
    for (float& x : numbers_) x = static_cast<float>(random() * 0x1p-32) * 2.0f - 1.0f;
  }
  const Status& status() const { return status_; }

  // The first failure is kept; what is made after it is empty.
  Tensor rows(int64_t rows, int64_t cols, DType dtype, float scale, double zeros = 0) {
    std::vector<float> values = some(rows * cols, scale);
    std::mt19937 random(5);
    const auto limit = static_cast<uint32_t>(zeros * 0xffffffffu);
    if (zeros > 0) {
      for (float& x : values) x = random() < limit ? 0.0f : x;
    }
    auto buffer = ops_.allocate(values.size() * size_of(dtype));
    if (!buffer.ok()) return fail(buffer.error()), Tensor{};
    std::vector<std::byte> host(values.size() * size_of(dtype));
    from_f32(values, dtype, host.data());
    ops_.write(buffer->data(), host.data(), host.size());
    buffers_.push_back(std::move(*buffer));
    return buffers_.back().matrix(dtype, rows, cols);
  }
  Tensor activations(int64_t rows, int64_t cols, float scale = 1, double zeros = 0) {
    return this->rows(rows, cols, ops_.activation_dtype(), scale, zeros);
  }
  Weight weight(int64_t out, int64_t in, WeightRole role) {
    auto& host = host_.emplace_back(static_cast<size_t>(out * in) * size_of(DType::f16));
    from_f32(some(out * in, 0.03f), DType::f16, host.data());
    const HostMatrix matrix{host.data(), DType::f16, out, in, in, 1};
    auto made = ops_.import_weight(matrix, role);
    if (ops_.import_bytes(matrix, role) > 0) host_.pop_back();
    if (!made.ok()) return fail(made.error()), Weight{};
    return *made;
  }
  Tensor vector(int64_t rows, int64_t cols) {
    auto made = ops_.import_vector(some(rows * cols, 0.5f), rows, cols);
    if (!made.ok()) return fail(made.error()), Tensor{};
    return *made;
  }
  Norm norm(int64_t cols) { return {vector(1, cols), vector(1, cols)}; }
  LowRank low_rank(int64_t rank, int64_t cols) {
    return {weight(rank, cols, WeightRole::low_rank), weight(cols, rank, WeightRole::low_rank),
            vector(1, cols)};
  }

 private:
  std::vector<float> some(int64_t count, float scale) const {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); i++) values[i] = scale * numbers_[i % kPeriod];
    return values;
  }
  void fail(const Error& error) {
    if (status_.ok()) status_ = error;
  }

  Ops& ops_;
  std::vector<float> numbers_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte>> host_;  // of weights that a backend borrows
  Status status_;
};

using Layer7 = Layer<TimeMix7, ChannelMix7>;
using Layer6 = Layer<TimeMix6, ChannelMix6>;

Layer7 make_layer7(Stock& stock, const ModelConfig& config) {
  const int64_t c = config.n_embd;
  const auto square = [&] { return stock.weight(c, c, WeightRole::projection); };
  Layer7 layer;
  TimeMix7& att = layer.att;
  att.n_head = config.n_head;
  att.head_size = config.head_size;
  att.ln1 = stock.norm(c);
  att.mix = stock.vector(6, c);
  att.receptance = square(), att.key = square(), att.value = square(), att.output = square();
  att.w = stock.low_rank(config.rank_w, c);
  att.a = stock.low_rank(config.rank_a, c);
  att.v = stock.low_rank(std::max<int64_t>(config.rank_v, 8), c);
  att.g = stock.low_rank(config.rank_g, c);
  att.k_k = stock.vector(1, c), att.k_a = stock.vector(1, c), att.r_k = stock.vector(1, c);
  att.ln_x = stock.norm(c);
  layer.ffn.ln2 = stock.norm(c);
  layer.ffn.mix = stock.vector(1, c);
  layer.ffn.key = stock.weight(config.n_ffn, c, WeightRole::ffn_key);
  layer.ffn.value = stock.weight(c, config.n_ffn, WeightRole::ffn_value);
  return layer;
}

Layer6 make_layer6(Stock& stock, const ModelConfig& config) {
  const int64_t c = config.n_embd;
  const auto square = [&] { return stock.weight(c, c, WeightRole::projection); };
  Layer6 layer;
  TimeMix6& att = layer.att;
  att.n_head = config.n_head;
  att.head_size = config.head_size;
  att.ln1 = stock.norm(c);
  att.mix_x = stock.vector(1, c);
  att.mix = stock.vector(5, c);
  att.mix_w1 = stock.weight(5 * config.rank_mix, c, WeightRole::low_rank);
  for (Weight& second : att.mix_w2) second = stock.weight(c, config.rank_mix, WeightRole::low_rank);
  att.receptance = square(), att.key = square(), att.value = square(), att.gate = square(),
  att.output = square();
  att.w = stock.low_rank(config.rank_decay, c);
  att.u = stock.vector(1, c);
  att.ln_x = stock.norm(c);
  layer.ffn.ln2 = stock.norm(c);
  layer.ffn.mix_k = stock.vector(1, c), layer.ffn.mix_r = stock.vector(1, c);
  layer.ffn.key = stock.weight(config.n_ffn, c, WeightRole::ffn_key);
  layer.ffn.value = stock.weight(c, config.n_ffn, WeightRole::ffn_value);
  layer.ffn.receptance = square();
  return layer;
}

// What the islands of one shape work on, and the counts of what they move and compute.
class Bench {
 public:
  Bench(Ops& ops, const ModelConfig& config, double zeros, Stock& stock, const PrefillShape& shape,
        const StatePool& states, const StatePool* half_states)
      : ops_(ops),
        config_(config),
        shape_(shape),
        state_(states.view()),
        half_state_(half_states != nullptr ? half_states->view() : State{}) {
    for (int64_t s = 0; s < shape.sequences; s++) {
      for (int64_t t = 0; t < shape.tokens; t++) token_.push_back(static_cast<int32_t>(s * 7919 + t) % 1000);
      start_.push_back(static_cast<int32_t>(token_.size()));
      slot_.push_back(static_cast<int32_t>(s));
    }
    batch_ = ops.begin_step({token_, start_, slot_, {}}, state_);
    const int64_t c = config.n_embd;
    x_ = stock.rows(batch_.rows, c, ops.residual_dtype(), 1);
    for (Tensor* tensor : {&pending_, &v_first_, &y_, &r_, &k_, &v_, &g_, &u_, &kk_, &alpha_}) {
      *tensor = stock.activations(batch_.rows, c, 0.2f);
    }
    for (Tensor& tensor : mixed_) tensor = stock.activations(batch_.rows, c);
    hidden_ = stock.activations(batch_.rows, config.n_ffn, 1, zeros);
  }

  void run(const std::vector<Layer7>& layers, std::vector<IslandLine>& lines) {
    const std::span<const Tensor, 6> mixed(mixed_, 6);
    const Projected7 p{r_, k_, v_, g_, u_, kk_, alpha_};
    const auto att = [&](int i) -> const TimeMix7& { return layers[static_cast<size_t>(i)].att; };
    const auto ffn = [&](int i) -> const ChannelMix7& { return layers[static_cast<size_t>(i)].ffn; };
    const double ranks =
        static_cast<double>(config_.rank_w + config_.rank_a + config_.rank_v + config_.rank_g);
    const double low = 2 * ranks * channels();
    const auto line = [&](const char* name, double parameters, double units, double states,
                          const std::function<void(int)>& call) {
      lines.push_back(measure(name, parameters, units, states, call));
    };
    line("enter7", 0, 11, 0, [&](int i) { ops_.enter7(batch_, att(i), x_, pending_, shift(i), mixed); });
    line("project7", 3 * square() + low, 15, 0,
         [&](int i) { ops_.project7(batch_, att(i), mixed, false, v_first_, p); });
    line("recur7", 0, 7, 4, [&](int i) { ops_.recur7(batch_, att(i), p, state_.wkv(i), y_); });
    if (half_state_.base != nullptr) {
      line("recur7 fp16", 0, 7, 2, [&](int i) { ops_.recur7(batch_, att(i), p, half_state_.wkv(i), y_); });
    }
    line("leave7", square(), 7, 0, [&](int i) { ops_.leave7(batch_, att(i), p, y_, pending_); });
    line("attend7", square(), 9, 4,
         [&](int i) { ops_.attend7(batch_, att(i), p, state_.wkv(i), y_, pending_); });
    line("channel_mix7", 2 * feed_forward(), 6, 0,
         [&](int i) { ops_.channel_mix7(batch_, {}, ffn(i), x_, pending_, state_.ffn_shift(i)); });
    const Block7Work work{
        {mixed_[0], mixed_[1], mixed_[2], mixed_[3], mixed_[4], mixed_[5]}, v_first_, p, y_, pending_};
    line("block7", 4 * square() + low + 2 * feed_forward(), 40, 4, [&](int i) {
      const Block7State at{shift(i), state_.wkv(i), state_.ffn_shift(i)};
      if (ops_.block7(batch_, {att(i), ffn(i), false}, x_, work, at)) return;
      ops_.enter7(batch_, att(i), x_, {}, at.att_shift, work.mixed);
      ops_.time_mix7(batch_, att(i), work.mixed, false, v_first_, p, at.wkv, y_, pending_);
      ops_.channel_mix7(batch_, {}, ffn(i), x_, pending_, at.ffn_shift);
    });
    products([&](int i) { return att(i).output; }, [&](int i) { return ffn(i).key; },
             [&](int i) { return ffn(i).value; }, lines);
  }

  void run(const std::vector<Layer6>& layers, std::vector<IslandLine>& lines) {
    const std::span<const Tensor, 5> mixed(mixed_, 5);
    const Projected6 p{r_, k_, v_, g_, u_};
    const auto att = [&](int i) -> const TimeMix6& { return layers[static_cast<size_t>(i)].att; };
    const auto ffn = [&](int i) -> const ChannelMix6& { return layers[static_cast<size_t>(i)].ffn; };
    const auto line = [&](const char* name, double parameters, double units, double states,
                          const std::function<void(int)>& call) {
      lines.push_back(measure(name, parameters, units, states, call));
    };
    const double mixes = 10 * static_cast<double>(config_.rank_mix) * channels();
    const double decay = 2 * static_cast<double>(config_.rank_decay) * channels();
    line("enter6", mixes, 10, 0, [&](int i) { ops_.enter6(batch_, att(i), x_, pending_, shift(i), mixed); });
    line("project6", 4 * square() + decay, 10, 0, [&](int i) { ops_.project6(batch_, att(i), mixed, p); });
    line("recur6", 0, 5, 4, [&](int i) { ops_.recur6(batch_, att(i), p, state_.wkv(i), y_); });
    if (half_state_.base != nullptr) {
      line("recur6 fp16", 0, 5, 2, [&](int i) { ops_.recur6(batch_, att(i), p, half_state_.wkv(i), y_); });
    }
    line("leave6", square(), 4, 0, [&](int i) { ops_.leave6(batch_, att(i), p, y_, pending_); });
    line("attend6", square(), 7, 4,
         [&](int i) { ops_.attend6(batch_, att(i), p, state_.wkv(i), y_, pending_); });
    line("channel_mix6", 2 * feed_forward() + square(), 8, 0,
         [&](int i) { ops_.channel_mix6(batch_, ffn(i), x_, pending_, state_.ffn_shift(i)); });
    products([&](int i) { return att(i).output; }, [&](int i) { return ffn(i).key; },
             [&](int i) { return ffn(i).value; }, lines);
  }

 private:
  using ChooseWeight = std::function<Weight(int)>;

  double rows() const { return static_cast<double>(batch_.rows); }
  double channels() const { return static_cast<double>(config_.n_embd); }
  double square() const { return channels() * channels(); }
  double feed_forward() const { return channels() * static_cast<double>(config_.n_ffn); }
  StateField shift(int i) const { return state_.att_shift(i); }

  // parameters: of its matrices; units: [rows, C] tensors read or written; states: bytes of a cell of the
  // state, which is read and written.
  IslandLine measure(const char* name, double parameters, double units, double states,
                     const std::function<void(int)>& call) {
    IslandLine line{name, shape_.sequences, shape_.tokens, {}, 0, 2 * rows() * parameters};
    const double cells = static_cast<double>(shape_.sequences * config_.n_embd * config_.head_size);
    line.bytes = kBytesPerElement * (parameters + units * rows() * channels()) + 2 * states * cells;
    int turn = 0;
    line.seconds = time_calls(ops_, [&] { call(turn++ % kLayers); });
    return line;
  }

  // The products that the islands end with, alone.
  void products(const ChooseWeight& output, const ChooseWeight& key, const ChooseWeight& value,
                std::vector<IslandLine>& lines) {
    const double wide = static_cast<double>(config_.n_ffn) / channels();
    lines.push_back(measure("output", square(), 2, 0, [&](int i) { ops_.linear(y_, output(i), pending_); }));
    lines.push_back(measure("value", feed_forward(), 1 + wide, 0,
                            [&](int i) { ops_.linear(hidden_, value(i), pending_); }));
    lines.push_back(
        measure("key", feed_forward(), 1 + wide, 0, [&](int i) { ops_.linear(y_, key(i), hidden_); }));
  }

  Ops& ops_;
  const ModelConfig& config_;
  const PrefillShape& shape_;
  State state_, half_state_;
  std::vector<int32_t> token_, start_{0}, slot_;
  Batch batch_;
  Tensor x_, pending_, v_first_, y_, r_, k_, v_, g_, u_, kk_, alpha_, mixed_[6], hidden_;
};

template <class Layer>
Result<std::vector<IslandLine>> bench_layers(Ops& ops, const ModelConfig& config, double zeros,
                                             const std::vector<PrefillShape>& shapes,
                                             Layer (*make)(Stock&, const ModelConfig&)) {
  Stock weights(ops);
  std::vector<Layer> layers;
  layers.reserve(kLayers);  // backends may remember a layer by address
  for (int i = 0; i < kLayers; i++) {
    layers.push_back(make(weights, config));
    FULMAR_TRY(weights.status());
    FULMAR_TRY(ops.finish_layer(layers.back().att, layers.back().ffn));
  }
  std::vector<IslandLine> lines;
  for (const PrefillShape& shape : shapes) {
    StateLayout layout{kLayers,          config.n_embd,     config.n_head,
                       config.head_size, ops.shift_dtype(), DType::f32};
    FULMAR_ASSIGN(const StatePool states, StatePool::make(ops, layout, shape.sequences));
    std::optional<StatePool> half_states;
    if (ops.traits().half_states) {
      layout.wkv_dtype = DType::f16;
      FULMAR_ASSIGN(half_states, StatePool::make(ops, layout, shape.sequences));
    }
    Stock inputs(ops);
    Bench bench(ops, config, zeros, inputs, shape, states, half_states ? &*half_states : nullptr);
    FULMAR_TRY(inputs.status());
    bench.run(layers, lines);
  }
  return lines;
}

}  // namespace

Result<std::vector<IslandLine>> bench_islands(Ops& ops, const ModelConfig& config, double zeros,
                                              const std::vector<PrefillShape>& shapes) {
  if (config.version == 7) return bench_layers<Layer7>(ops, config, zeros, shapes, make_layer7);
  return bench_layers<Layer6>(ops, config, zeros, shapes, make_layer6);
}

}  // namespace fulmar
