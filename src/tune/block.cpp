#include "tune/block.h"

#include <fmt/format.h>

#include "base/check.h"
#include "rwkv6/backward.h"
#include "rwkv7/backward.h"

namespace fulmar {
namespace {

// Finds the parameters of one block by the ends of their names.
template <class Number>
class BlockBinder {
 public:
  BlockBinder(ModelParameters<Number>& parameters, int64_t layer)
      : parameters_(parameters), prefix_(fmt::format("blocks.{}.", layer)) {}

  Parameter<Number>* any(const std::string& name) const { return parameters_.find(prefix_ + name); }
  Parameter<Number>* get(const std::string& name) const {
    Parameter<Number>* found = any(name);
    FULMAR_CHECK(found != nullptr, "a checked model has all of its tensors");
    return found;
  }
  LinearParameters<Number> linear(const std::string& name) const {
    return bind_linear(parameters_, prefix_ + name);
  }
  NormParameters<Number> norm(const std::string& name) const {
    return bind_norm(parameters_, prefix_ + name);
  }
  int64_t n_head() const { return parameters_.config.n_head; }

 private:
  ModelParameters<Number>& parameters_;
  std::string prefix_;
};

template <class Number>
class TrainedBlock7 final : public TrainedBlock<Number> {
 public:
  TrainedBlock7(const BlockBinder<Number>& from, int64_t layer) {
    const auto low_rank_of = [&](const std::string& letter) {
      const std::string name = "att." + letter;
      return LowRankParameters<Number>{from.get(name + "1"), from.get(name + "2"), from.any(name + "0")};
    };
    att_.ln1 = from.norm("ln1");
    const char* const mixes[] = {"r", "w", "k", "v", "a", "g"};
    for (size_t i = 0; i < att_.mix.size(); i++) att_.mix[i] = from.get(std::string("att.x_") + mixes[i]);
    att_.receptance = from.linear("att.receptance"), att_.key = from.linear("att.key");
    att_.value = from.linear("att.value"), att_.output = from.linear("att.output");
    att_.w = low_rank_of("w"), att_.a = low_rank_of("a"), att_.g = low_rank_of("g");
    if (layer > 0) att_.v = low_rank_of("v");
    att_.vectors = {from.n_head(), from.get("att.k_k"), from.get("att.k_a"), from.get("att.r_k")};
    att_.ln_x = from.norm("att.ln_x");
    ffn_ = {from.norm("ln2"), from.get("ffn.x_k"), from.linear("ffn.key"), from.linear("ffn.value")};
  }

  Matrix<Number> forward(SequenceBounds bounds, const Matrix<Number>& x, Matrix<Number>& v_first,
                         Carry<Number>& carry) override {
    Matrix<Number> stream = time_mix7(bounds, att_, x, v_first, carry, att_tape_);
    stream += x;
    Matrix<Number> out = channel_mix7(bounds, ffn_, stream, carry, ffn_tape_);
    out += stream;
    return out;
  }
  Matrix<Number> backward(SequenceBounds bounds, const Matrix<Number>& dout, Matrix<Number>& dv_first,
                          Carry<Number>& dcarry) override {
    Matrix<Number> dstream = channel_mix7_vjp(bounds, ffn_, ffn_tape_, dout, dcarry);
    dstream += dout;
    Matrix<Number> dx = time_mix7_vjp(bounds, att_, att_tape_, dstream, dv_first, dcarry);
    dx += dstream;
    return dx;
  }
  void forget() override { att_tape_ = {}, ffn_tape_ = {}; }

 private:
  TimeMix7Parameters<Number> att_;
  ChannelMix7Parameters<Number> ffn_;
  TimeMix7Tape<Number> att_tape_;
  ChannelMix7Tape<Number> ffn_tape_;
};

template <class Number>
class TrainedBlock6 final : public TrainedBlock<Number> {
 public:
  TrainedBlock6(const BlockBinder<Number>& from, int64_t) {
    att_.ln1 = from.norm("ln1");
    att_.mix_x = from.get("att.time_maa_x");
    const char* const mixes[] = {"w", "k", "v", "r", "g"};
    for (size_t i = 0; i < att_.mix.size(); i++)
      att_.mix[i] = from.get(std::string("att.time_maa_") + mixes[i]);
    att_.mix_w1 = from.get("att.time_maa_w1"), att_.mix_w2 = from.get("att.time_maa_w2");
    att_.receptance = from.linear("att.receptance"), att_.key = from.linear("att.key");
    att_.value = from.linear("att.value"), att_.gate = from.linear("att.gate");
    att_.output = from.linear("att.output");
    att_.w = {from.get("att.time_decay_w1"), from.get("att.time_decay_w2"), from.get("att.time_decay")};
    att_.vectors = {from.n_head(), from.get("att.time_faaaa")};
    att_.ln_x = from.norm("att.ln_x");
    ffn_.ln2 = from.norm("ln2");
    ffn_.mix_k = from.get("ffn.time_maa_k"), ffn_.mix_r = from.get("ffn.time_maa_r");
    ffn_.key = from.linear("ffn.key"), ffn_.value = from.linear("ffn.value");
    ffn_.receptance = from.linear("ffn.receptance");
  }

  Matrix<Number> forward(SequenceBounds bounds, const Matrix<Number>& x, Matrix<Number>&,
                         Carry<Number>& carry) override {
    Matrix<Number> stream = time_mix6(bounds, att_, x, carry, att_tape_);
    stream += x;
    Matrix<Number> out = channel_mix6(bounds, ffn_, stream, carry, ffn_tape_);
    out += stream;
    return out;
  }
  Matrix<Number> backward(SequenceBounds bounds, const Matrix<Number>& dout, Matrix<Number>&,
                          Carry<Number>& dcarry) override {
    Matrix<Number> dstream = channel_mix6_vjp(bounds, ffn_, ffn_tape_, dout, dcarry);
    dstream += dout;
    Matrix<Number> dx = time_mix6_vjp(bounds, att_, att_tape_, dstream, dcarry);
    dx += dstream;
    return dx;
  }
  void forget() override { att_tape_ = {}, ffn_tape_ = {}; }

 private:
  TimeMix6Parameters<Number> att_;
  ChannelMix6Parameters<Number> ffn_;
  TimeMix6Tape<Number> att_tape_;
  ChannelMix6Tape<Number> ffn_tape_;
};

template <class Number, class Block>
std::unique_ptr<TrainedBlock<Number>> make(ModelParameters<Number>& parameters, int64_t layer) {
  return std::make_unique<Block>(BlockBinder<Number>(parameters, layer), layer);
}

}  // namespace

template <class Number>
LinearParameters<Number> bind_linear(ModelParameters<Number>& parameters, const std::string& matrix) {
  LinearParameters<Number> linear{parameters.find(matrix + ".weight")};
  FULMAR_CHECK(linear.weight != nullptr, "a checked model has all of its tensors");
  const auto scale = parameters.scales.find(matrix);
  if (scale == parameters.scales.end()) return linear;
  linear.delta = {parameters.find(matrix + ".lora_A"), parameters.find(matrix + ".lora_B"),
                  parameters.find(matrix + ".miss"), scale->second};
  return linear;
}

template <class Number>
NormParameters<Number> bind_norm(ModelParameters<Number>& parameters, const std::string& norm) {
  return {parameters.find(norm + ".weight"), parameters.find(norm + ".bias")};
}

template <class Number>
std::unique_ptr<TrainedBlock<Number>> make_trained_block(ModelParameters<Number>& parameters, int64_t layer) {
  return of_version(parameters.config.version, &make<Number, TrainedBlock7<Number>>,
                    &make<Number, TrainedBlock6<Number>>)(parameters, layer);
}

#define FULMAR_TRAINED_BLOCK_OF(N)                                                   \
  template LinearParameters<N> bind_linear(ModelParameters<N>&, const std::string&); \
  template NormParameters<N> bind_norm(ModelParameters<N>&, const std::string&);     \
  template std::unique_ptr<TrainedBlock<N>> make_trained_block(ModelParameters<N>&, int64_t)
FULMAR_TRAINED_BLOCK_OF(float);
FULMAR_TRAINED_BLOCK_OF(double);
#undef FULMAR_TRAINED_BLOCK_OF

}  // namespace fulmar
