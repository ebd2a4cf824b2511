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
#include "files/quantised.h"
#include "files/versions.h"
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
  Range values;
  std::optional<Quantisation> quantisation = std::nullopt;
};

ModelConfig sizes_of(const SyntheticSpec& spec) {
  const int64_t c = spec.n_head * spec.head_size;
  ModelConfig config{.version = spec.version,
                     .deep_embed = spec.deep_embed_rank > 0,
                     .n_layer = spec.n_layer,
                     .n_embd = c,
                     .n_head = spec.n_head,
                     .head_size = spec.head_size,
                     .n_ffn = spec.n_ffn,
                     .vocab = spec.vocab};
  if (spec.n_ffn == 0) config.n_ffn = version_of(spec.version).ffn_halves * c / 2 / 32 * 32;
  config.rank_w = spec.rank_w, config.rank_a = spec.rank_a, config.rank_v = spec.rank_v,
  config.rank_g = spec.rank_g;
  config.rank_mix = spec.rank_mix, config.rank_decay = spec.rank_decay;
  config.deep_embed_rank = spec.deep_embed_rank;
  return config;
}

// Returns a tensor's shape as official files have it: vectors other than norms with two unit axes.
std::vector<int64_t> shape_in(const ModelTensor& tensor, const ModelConfig& config) {
  std::vector<int64_t> shape = shape_of(tensor, config);
  const bool norm = tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias");
  if (shape.size() == 1 && !norm) shape.insert(shape.begin(), 2, 1);
  return shape;
}

// Returns the tensors of a model: those before the blocks, those of each block, those behind.
std::vector<Planned> plan_of(const SyntheticSpec& spec) {
  const ModelConfig config = sizes_of(spec);
  const std::span<const ModelTensor> all = version_of(spec.version).tensors;
  std::vector<Planned> planned;
  const auto add = [&](std::string name, std::vector<int64_t> shape, const Range& values) {
    planned.push_back({std::move(name), std::move(shape), values});
    if (!spec.quantisation) return;
    Planned& tensor = planned.back();
    tensor.quantisation =
        quantisation_of(tensor.name, tensor.shape, quantise_all(*spec.quantisation, head_quantisation()));
  };
  const auto add_tensor = [&](const std::string& prefix, const ModelTensor& tensor) {
    add(prefix + std::string(tensor.name), shape_in(tensor, config), tensor.values);
  };
  const auto add_outside = [&](Where where) {
    for (const ModelTensor& tensor : all) {
      if (tensor.where == where) add_tensor("", tensor);
    }
  };
  add_outside(Where::before_blocks);
  for (int64_t layer = 0; layer < spec.n_layer; layer++) {
    const std::string block = fmt::format("blocks.{}.", layer);
    for (const ModelTensor& tensor : all) {
      if (in_block(tensor, layer, config)) add_tensor(block, tensor);
    }
    if (spec.time_state) {
      add(block + "att.time_state", {spec.n_head, spec.head_size, spec.head_size}, {0, 0.5});
    }
  }
  add_outside(Where::after_blocks);
  return planned;
}

// Returns the range with the amplitude that a tensor's shape asks for.
Range range_of(const Planned& tensor) {
  const auto axis = [&](size_t index) { return static_cast<double>(tensor.shape[index]); };
  switch (tensor.values.by) {
    case Range::By::given:
      break;
    case Range::By::weight:
      return {0, std::sqrt(3.0 / axis(1))};
    case Range::By::first:
      return {0, std::sqrt(3.0 / axis(0))};
    case Range::By::second:
      return {0, 1.0 / std::sqrt(axis(tensor.shape.size() - 2))};
  }
  return tensor.values;
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

void check_spec(const SyntheticSpec& spec) {
  const Version& version = version_of(spec.version);
  const ModelConfig config = sizes_of(spec);
  FULMAR_CHECK(spec.n_layer > 0 && spec.n_head > 0 && spec.head_size > 0 && spec.vocab > 0);
  for (const RankSize& rank : version.ranks) {
    FULMAR_CHECK(config.*rank.size > 0 || rank.block >= spec.n_layer, "every low-rank width of the version");
  }
  FULMAR_CHECK(spec.deep_embed_rank == 0 || version.deep_embed);
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
  const std::vector<Planned> plan = plan_of(spec);
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

void synthetic_numbers(std::string_view name, uint64_t seed, double amplitude, std::span<float> out) {
  generate(hash_of(name, seed), {0, amplitude}, 0, out);
}

}  // namespace fulmar
