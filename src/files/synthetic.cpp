#include "files/synthetic.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/thread.h"
#include "files/model_config.h"
#include "files/quantised.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

constexpr size_t kAlignment = 64;

struct Preset {
  std::string_view name;
  SyntheticSpec spec;
};

SyntheticSpec preset7(int64_t layers, int64_t heads, std::array<int64_t, 4> ranks) {
  SyntheticSpec spec{.version = 7, .n_layer = layers, .n_head = heads, .head_size = 64, .vocab = 65536};
  spec.rank_w = ranks[0];
  spec.rank_a = ranks[1];
  spec.rank_v = ranks[2];
  spec.rank_g = ranks[3];
  spec.dtype = DType::f16;
  return spec;
}

SyntheticSpec preset6(int64_t layers, int64_t heads, int64_t rank_mix, int64_t rank_decay) {
  SyntheticSpec spec{.version = 6, .n_layer = layers, .n_head = heads, .head_size = 64, .vocab = 65536};
  spec.rank_mix = rank_mix;
  spec.rank_decay = rank_decay;
  spec.dtype = DType::f16;
  return spec;
}

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"rwkv7-0.1b", preset7(12, 12, {64, 64, 32, 128})},
      {"rwkv7-0.4b", preset7(24, 16, {64, 64, 32, 128})},
      {"rwkv7-1.5b", preset7(24, 32, {96, 96, 64, 256})},
      {"rwkv7-2.9b", preset7(32, 40, {96, 96, 64, 320})},
      {"rwkv7-7.2b", preset7(32, 64, {128, 128, 96, 480})},
      {"rwkv7-13.3b", preset7(61, 64, {192, 192, 128, 384})},
      {"rwkv6-1.6b", preset6(24, 32, 32, 64)},
      {"rwkv6-3b", preset6(32, 40, 32, 64)},
      {"rwkv6-7b", preset6(32, 64, 64, 128)},
      {"rwkv6-14b", preset6(61, 64, 64, 128)},
  };
  return all;
}

struct Planned {
  std::string name;
  std::vector<int64_t> shape;
  std::optional<Quantisation> quantisation = std::nullopt;
};

// The tensors of a model in the order of a state dict.
class Plan {
 public:
  explicit Plan(const SyntheticSpec& spec) : spec_(spec), c_(spec.n_head * spec.head_size) {
    f_ = spec.n_ffn > 0 ? spec.n_ffn : of_version(spec.version, 4 * c_, 7 * c_ / 2) / 32 * 32;
    add("emb.weight", {spec.vocab, c_});
    for (int64_t layer = 0; layer < spec.n_layer; layer++) add_block(layer);
    add_norm("ln_out");
    add("head.weight", {spec.vocab, c_});
  }

  std::vector<Planned> take() { return std::move(tensors_); }

 private:
  void add(std::string_view name, std::vector<int64_t> shape) {
    tensors_.push_back({prefix_ + std::string(name), std::move(shape)});
    if (!spec_.quantisation) return;
    Planned& tensor = tensors_.back();
    tensor.quantisation =
        quantisation_of(tensor.name, tensor.shape, quantise_all(*spec_.quantisation, head_quantisation()));
  }
  void add_vector(std::string_view name) { add(name, {1, 1, c_}); }
  void add_norm(const std::string& name) {
    add(name + ".weight", {c_});
    add(name + ".bias", {c_});
  }

  void add_block(int64_t layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    prefix_ = block;
    if (layer == 0) add_norm("ln0");
    add_norm("ln1");
    add_norm("ln2");
    prefix_ = block + "att.";
    (this->*of_version(spec_.version, &Plan::add_time_mix7, &Plan::add_time_mix6))(layer);
    add_norm("ln_x");
    if (spec_.time_state) add("time_state", {spec_.n_head, spec_.head_size, spec_.head_size});
    prefix_ = block + "ffn.";
    (this->*of_version(spec_.version, &Plan::add_channel_mix7, &Plan::add_channel_mix6))();
    add("key.weight", {f_, c_});
    add("value.weight", {c_, f_});
    prefix_.clear();
  }

  void add_low_rank(char letter, int64_t rank, bool bias) {
    if (bias) add_vector(fmt::format("{}0", letter));
    add(fmt::format("{}1", letter), {c_, rank});
    add(fmt::format("{}2", letter), {rank, c_});
  }

  void add_projections(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) add(fmt::format("{}.weight", name), {c_, c_});
  }

  void add_time_mix7(int64_t layer) {
    for (const char letter : {'r', 'w', 'k', 'v', 'a', 'g'}) add_vector(fmt::format("x_{}", letter));
    add_low_rank('w', spec_.rank_w, true);
    add_low_rank('a', spec_.rank_a, true);
    if (layer > 0) add_low_rank('v', spec_.rank_v, true);
    add_low_rank('g', spec_.rank_g, false);
    add_vector("k_k");
    add_vector("k_a");
    add("r_k", {spec_.n_head, spec_.head_size});
    add_projections({"receptance", "key", "value", "output"});
  }

  void add_time_mix6(int64_t) {
    for (const char letter : {'x', 'w', 'k', 'v', 'r', 'g'}) add_vector(fmt::format("time_maa_{}", letter));
    add("time_maa_w1", {c_, 5 * spec_.rank_mix});
    add("time_maa_w2", {5, spec_.rank_mix, c_});
    add_vector("time_decay");
    add("time_decay_w1", {c_, spec_.rank_decay});
    add("time_decay_w2", {spec_.rank_decay, c_});
    add("time_faaaa", {spec_.n_head, spec_.head_size});
    add_projections({"receptance", "key", "value", "gate", "output"});
  }

  void add_channel_mix7() {
    add_vector("x_k");
    const int64_t d = spec_.deep_embed_rank;
    if (d == 0) return;
    add("s_emb.weight", {spec_.vocab, d * d});
    add("s_emb_x.weight", {d * d, c_});
    add("s1", {c_, d});
    add("s2", {d, f_});
    add("s0", {1, 1, f_});
  }

  void add_channel_mix6() {
    add_vector("time_maa_k");
    add_vector("time_maa_r");
    add_projections({"receptance"});
  }

  const SyntheticSpec& spec_;
  const int64_t c_;
  int64_t f_ = 0;
  std::string prefix_;
  std::vector<Planned> tensors_;
};

// value = base + amplitude * (2u - 1), u uniform in [0, 1).
struct Range {
  double base = 0;
  double amplitude = 0;
};

bool one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Range range_of(const Planned& tensor) {
  const std::string_view name = tensor.name;
  const std::vector<int64_t>& shape = tensor.shape;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (name == "emb.weight") return {0, 1};
  if (name.ends_with("s_emb.weight") || name.ends_with("s_emb_x.weight")) return {0, 0.3};
  if (last == "weight" && shape.size() == 2) return {0, std::sqrt(3.0 / static_cast<double>(shape[1]))};
  if (last == "weight") return {1, 0.25};
  if (last == "bias") return {0, 0.1};
  if (one_of(last, {"w1", "a1", "v1", "g1", "s1", "time_maa_w1", "time_decay_w1"})) {
    return {0, std::sqrt(3.0 / static_cast<double>(shape[0]))};
  }
  if (one_of(last, {"w2", "a2", "v2", "g2", "s2", "time_maa_w2", "time_decay_w2"})) {
    return {0, 1.0 / std::sqrt(static_cast<double>(shape[shape.size() - 2]))};
  }
  if (last.starts_with("x_") || last.starts_with("time_maa_")) return {0.5, 0.5};
  struct Named {
    std::string_view name;
    Range range;
  };
  constexpr std::array<Named, 10> kNamed = {{{"w0", {-2, 4}},
                                             {"a0", {0, 1}},
                                             {"v0", {0.7, 0.5}},
                                             {"k_k", {0.7, 0.3}},
                                             {"k_a", {1, 0.2}},
                                             {"r_k", {0, 0.2}},
                                             {"s0", {1, 0.2}},
                                             {"time_decay", {-2, 3}},
                                             {"time_faaaa", {0, 0.5}},
                                             {"time_state", {0, 0.5}}}};
  const auto found =
      std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& n) { return n.name == last; });
  FULMAR_CHECK(found != kNamed.end());
  return found->range;
}

uint64_t hash_of(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash ^ seed;
}

// Computes elements [first, first + out.size()) of the tensor whose name hashes to `hash`.
void generate(uint64_t hash, Range range, int64_t first, std::span<float> out) {
  uint64_t counter = hash + static_cast<uint64_t>(first) * 0x9e3779b97f4a7c15;
  for (float& value : out) {
    counter += 0x9e3779b97f4a7c15;
    uint64_t z = counter;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    const double u = static_cast<double>(static_cast<int64_t>(z >> 40)) * 0x1p-24;
    value = static_cast<float>(range.base + range.amplitude * (2 * u - 1));
  }
}

// How the feed-forward network is bent towards a share of zeros.
struct ZerosShift {
  float ln2_bias = 0;  // added to every element of ln2.bias
  float ffn_key = 0;   // added to every element of ffn.key
};

// Returns x with P(standard normal < x) = share, by bisection.
double normal_quantile(double share) {
  double low = -9, high = 9;
  for (int i = 0; i < 60; i++) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return low;
}

// Computes the shift. With the constant m on every channel of the network's input x, adding -s to each key
// weight moves every pre-activation by about -s*C*m, since the rest of x sums to nearly zero after a layer
// norm. Without it their standard deviation is about sqrt(E[x²]) = sqrt(1 + m²) less what the token-shift
// average takes.
ZerosShift shift_for(const SyntheticSpec& spec) {
  if (spec.ffn_zeros <= 0) return {};
  constexpr double kConstant = 0.25, kDeviation = 0.95;
  const double width = static_cast<double>(spec.n_head * spec.head_size);
  const double slope = normal_quantile(std::min(spec.ffn_zeros, 0.9999)) * kDeviation / (width * kConstant);
  return {static_cast<float>(kConstant), static_cast<float>(-slope)};
}

float shift_of(std::string_view name, const ZerosShift& shift) {
  if (name.ends_with(".ln2.bias")) return shift.ln2_bias;
  if (name.ends_with(".ffn.key.weight")) return shift.ffn_key;
  return 0;
}

// A stretch of one tensor, small enough that its f32 form stays in the cache.
struct TensorStretch {
  const Planned* tensor = nullptr;
  std::byte* to = nullptr;
  int64_t first = 0;
  int64_t count = 0;
};

void fill(const TensorStretch& piece, const SyntheticSpec& spec, const ZerosShift& zeros) {
  constexpr int64_t kBatch = 4096;
  std::array<float, kBatch> values;
  const Range range = range_of(*piece.tensor);
  const uint64_t hash = hash_of(piece.tensor->name, spec.seed);
  const float shift = shift_of(piece.tensor->name, zeros);
  for (int64_t done = 0; done < piece.count; done += kBatch) {
    const std::span<float> batch =
        std::span(values).first(static_cast<size_t>(std::min(kBatch, piece.count - done)));
    generate(hash, range, piece.first + done, batch);
    if (shift != 0) {
      for (float& value : batch) value += shift;
    }
    from_f32(batch, spec.dtype, piece.to + static_cast<size_t>(done) * size_of(spec.dtype));
  }
}

// Encoded runs of 256 weights of a tensor, each with its scales.
struct Runs {
  static constexpr int64_t kLength = 256, kCount = 2048;
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

std::vector<float> generated(const Planned& tensor, const SyntheticSpec& spec, const ZerosShift& zeros,
                             int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  generate(hash_of(tensor.name, spec.seed), range_of(tensor), first, values);
  const float shift = shift_of(tensor.name, zeros);
  for (float& value : values) value += shift;
  return values;
}

Runs encoded_runs(const Planned& tensor, const SyntheticSpec& spec, const ZerosShift& zeros) {
  const Quantisation& by = *tensor.quantisation;
  Runs runs;
  runs.codes.resize(bytes_for(by.dtype, Runs::kCount * Runs::kLength));
  runs.scales.resize(static_cast<size_t>(Runs::kCount * scales_per_row(by, Runs::kLength)));
  encode_rows(by, generated(tensor, spec, zeros, 0, Runs::kCount * Runs::kLength), Runs::kLength,
              runs.codes.data(), runs.scales.data());
  return runs;
}

// One quantised tensor: where its codes and scales go.
struct QuantisedPiece {
  const Planned* tensor = nullptr;
  std::byte* codes = nullptr;
  float* scales = nullptr;
};

// Fills every row with runs in another order. A scale that serves several runs is that of the first one.
void fill_from_runs(const QuantisedPiece& piece, const Runs& runs, uint64_t seed) {
  const Quantisation& by = *piece.tensor->quantisation;
  const int64_t rows = piece.tensor->shape[0], each = piece.tensor->shape[1] / Runs::kLength;
  const size_t bytes = bytes_for(by.dtype, Runs::kLength);
  const int64_t of_run = scales_per_row(by, Runs::kLength);
  const bool shared = by.group == kWholeRow;
  uint64_t state = hash_of(piece.tensor->name, seed) | 1;
  std::byte* codes = piece.codes;
  float* scales = piece.scales;
  for (int64_t i = 0; i < rows * each; i++, codes += bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto run = static_cast<int64_t>(state >> 33) % Runs::kCount;
    std::memcpy(codes, runs.codes.data() + static_cast<size_t>(run) * bytes, bytes);
    if (shared && i % each != 0) continue;
    const float* from = runs.scales.data() + run * of_run;
    scales = std::copy(from, from + of_run, scales);
  }
}

void fill_quantised(const QuantisedPiece& piece, const SyntheticSpec& spec, const ZerosShift& zeros) {
  const int64_t rows = piece.tensor->shape[0], cols = piece.tensor->shape[1];
  const Quantisation& by = *piece.tensor->quantisation;
  if (cols % Runs::kLength == 0) {
    return fill_from_runs(piece, encoded_runs(*piece.tensor, spec, zeros), spec.seed);
  }
  encode_rows(by, generated(*piece.tensor, spec, zeros, 0, rows * cols), cols, piece.codes, piece.scales);
}

// Calls f(i) for all i below `count`, on all cores.
template <class F>
void on_all_cores(size_t count, F&& f) {
  if (count == 0) return;
  std::atomic<size_t> next = 0;
  const auto threads = static_cast<unsigned>(std::min<size_t>(processor_threads(), count));
  run_on_threads(threads, [&](unsigned) {
    for (size_t i = next++; i < count; i = next++) f(i);
  });
}

void fill_all(const std::vector<TensorStretch>& pieces, const std::vector<QuantisedPiece>& quantised,
              const SyntheticSpec& spec) {
  const ZerosShift zeros = shift_for(spec);
  on_all_cores(pieces.size(), [&](size_t i) { fill(pieces[i], spec, zeros); });
  on_all_cores(quantised.size(), [&](size_t i) { fill_quantised(quantised[i], spec, zeros); });
}

// Maps zeroed memory, which the system provides page by page; null if it refuses.
std::shared_ptr<std::byte> map_memory(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* data) { ::munmap(data, bytes); }};
}

// Returns the bytes of a tensor's separate scales.
size_t scale_bytes(const Planned& tensor) {
  if (!tensor.quantisation) return 0;
  return static_cast<size_t>(tensor.shape[0] * scales_per_row(*tensor.quantisation, tensor.shape[1])) *
         sizeof(float);
}

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool has_ranks7(const SyntheticSpec& spec) {
  return spec.rank_w > 0 && spec.rank_a > 0 && spec.rank_g > 0 && (spec.n_layer == 1 || spec.rank_v > 0);
}
bool has_ranks6(const SyntheticSpec& spec) {
  return spec.rank_mix > 0 && spec.rank_decay > 0 && spec.deep_embed_rank == 0;
}

void check_spec(const SyntheticSpec& spec) {
  FULMAR_CHECK(spec.version >= 6 && spec.version <= 7);
  FULMAR_CHECK(spec.n_layer > 0 && spec.n_head > 0 && spec.head_size > 0 && spec.vocab > 0);
  FULMAR_CHECK(of_version(spec.version, has_ranks7, has_ranks6)(spec));
  FULMAR_CHECK(spec.dtype == DType::f32 || spec.dtype == DType::f16 || spec.dtype == DType::bf16);
}

}  // namespace

std::optional<SyntheticSpec> synthetic_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset.spec;
  }
  return std::nullopt;
}

std::vector<std::string_view> synthetic_preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

std::unique_ptr<Checkpoint> synthetic_checkpoint(const SyntheticSpec& spec) {
  check_spec(spec);
  constexpr int64_t kPiece = 1 << 20;
  const std::vector<Planned> plan = Plan(spec).take();
  CheckpointParts parts;
  size_t total = 0;
  for (const Planned& planned : plan) {
    const auto& by = planned.quantisation;
    parts.tensors.push_back({planned.name, by ? by->dtype : spec.dtype, planned.shape,
                             row_major_strides(planned.shape), nullptr});
    total += aligned(parts.tensors.back().bytes()) + aligned(scale_bytes(planned));
  }
  const std::shared_ptr<std::byte> memory = map_memory(total);
  if (memory == nullptr) return nullptr;

  std::vector<TensorStretch> pieces;
  std::vector<QuantisedPiece> quantised;
  std::byte* at = memory.get();
  for (size_t i = 0; i < plan.size(); i++) {
    StoredTensor& tensor = parts.tensors[i];
    tensor.data = at;
    at += aligned(tensor.bytes());
    if (plan[i].quantisation) {
      auto* scales = reinterpret_cast<float*>(at);
      quantised.push_back({&plan[i], at - aligned(tensor.bytes()), scales});
      if (scale_bytes(plan[i]) == 0) continue;
      tensor.scales = scales;
      tensor.group = group_of(*plan[i].quantisation, tensor.shape[1]);
      at += aligned(scale_bytes(plan[i]));
      continue;
    }
    std::byte* const data = at - aligned(tensor.bytes());
    for (int64_t first = 0; first < tensor.count(); first += kPiece) {
      pieces.push_back({&plan[i], data + static_cast<size_t>(first) * size_of(spec.dtype), first,
                        std::min(kPiece, tensor.count() - first)});
    }
  }
  fill_all(pieces, quantised, spec);
  parts.owners.push_back(memory);
  parts.description =
      fmt::format("synthetic RWKV-{}, {}, {}", spec.version,
                  spec.quantisation ? spec.quantisation->name : name_of(spec.dtype), size_text(total));
  return make_checkpoint(std::move(parts));
}

}  // namespace fulmar
