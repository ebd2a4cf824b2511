#include "files/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <unordered_set>

#include "files/hub_facts.h"

namespace fulmar {
namespace {

constexpr size_t kMaxOddities = 32;

Error unsupported(std::string text) { return {ErrorKind::unsupported, std::move(text)}; }
Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

// Sizes that shapes consist of, by their letters in the model's description.
enum class Dim : uint8_t { none, V, C, H, N, F, Rw, Ra, Rv, Rg, Rm, Rm5, Rd, D, DD, five };

enum class Where : uint8_t {
  outside,  // of blocks; the name is whole
  every_block,
  first_block,   // not where the embedding is normed already
  later_blocks,  // needed from block 1 on, may be unused in block 0
};

// One tensor that the forward needs.
struct Expected {
  std::string_view name;  // after "blocks.<l>." unless outside
  Where where;
  std::array<Dim, 3> shape;
};

constexpr Dim kNone = Dim::none;
constexpr std::array<Dim, 3> kVector = {Dim::C, kNone, kNone};
constexpr std::array<Dim, 3> kSquare = {Dim::C, Dim::C, kNone};

// Tensors that both versions have.
constexpr Expected kCommon[] = {
    {"emb.weight", Where::outside, {Dim::V, Dim::C, kNone}},
    {"ln_out.weight", Where::outside, kVector},
    {"ln_out.bias", Where::outside, kVector},
    {"head.weight", Where::outside, {Dim::V, Dim::C, kNone}},
    {"ln0.weight", Where::first_block, kVector},
    {"ln0.bias", Where::first_block, kVector},
    {"ln1.weight", Where::every_block, kVector},
    {"ln1.bias", Where::every_block, kVector},
    {"ln2.weight", Where::every_block, kVector},
    {"ln2.bias", Where::every_block, kVector},
    {"att.receptance.weight", Where::every_block, kSquare},
    {"att.key.weight", Where::every_block, kSquare},
    {"att.value.weight", Where::every_block, kSquare},
    {"att.output.weight", Where::every_block, kSquare},
    {"att.ln_x.weight", Where::every_block, kVector},
    {"att.ln_x.bias", Where::every_block, kVector},
    {"ffn.key.weight", Where::every_block, {Dim::F, Dim::C, kNone}},
    {"ffn.value.weight", Where::every_block, {Dim::C, Dim::F, kNone}},
};

constexpr Expected kOnly7[] = {
    {"att.x_r", Where::every_block, kVector},
    {"att.x_w", Where::every_block, kVector},
    {"att.x_k", Where::every_block, kVector},
    {"att.x_v", Where::every_block, kVector},
    {"att.x_a", Where::every_block, kVector},
    {"att.x_g", Where::every_block, kVector},
    {"att.w0", Where::every_block, kVector},
    {"att.w1", Where::every_block, {Dim::C, Dim::Rw, kNone}},
    {"att.w2", Where::every_block, {Dim::Rw, Dim::C, kNone}},
    {"att.a0", Where::every_block, kVector},
    {"att.a1", Where::every_block, {Dim::C, Dim::Ra, kNone}},
    {"att.a2", Where::every_block, {Dim::Ra, Dim::C, kNone}},
    {"att.v0", Where::later_blocks, kVector},
    {"att.v1", Where::later_blocks, {Dim::C, Dim::Rv, kNone}},
    {"att.v2", Where::later_blocks, {Dim::Rv, Dim::C, kNone}},
    {"att.g1", Where::every_block, {Dim::C, Dim::Rg, kNone}},
    {"att.g2", Where::every_block, {Dim::Rg, Dim::C, kNone}},
    {"att.k_k", Where::every_block, kVector},
    {"att.k_a", Where::every_block, kVector},
    {"att.r_k", Where::every_block, {Dim::H, Dim::N, kNone}},
    {"ffn.x_k", Where::every_block, kVector},
};

constexpr Expected kOnlyDeepEmbed[] = {
    {"ffn.s_emb.weight", Where::every_block, {Dim::V, Dim::DD, kNone}},
    {"ffn.s_emb_x.weight", Where::every_block, {Dim::DD, Dim::C, kNone}},
    {"ffn.s1", Where::every_block, {Dim::C, Dim::D, kNone}},
    {"ffn.s2", Where::every_block, {Dim::D, Dim::F, kNone}},
    {"ffn.s0", Where::every_block, {Dim::F, kNone, kNone}},
};

constexpr Expected kOnly6[] = {
    {"att.time_maa_x", Where::every_block, kVector},
    {"att.time_maa_w", Where::every_block, kVector},
    {"att.time_maa_k", Where::every_block, kVector},
    {"att.time_maa_v", Where::every_block, kVector},
    {"att.time_maa_r", Where::every_block, kVector},
    {"att.time_maa_g", Where::every_block, kVector},
    {"att.time_maa_w1", Where::every_block, {Dim::C, Dim::Rm5, kNone}},
    {"att.time_maa_w2", Where::every_block, {Dim::five, Dim::Rm, Dim::C}},
    {"att.time_decay", Where::every_block, kVector},
    {"att.time_decay_w1", Where::every_block, {Dim::C, Dim::Rd, kNone}},
    {"att.time_decay_w2", Where::every_block, {Dim::Rd, Dim::C, kNone}},
    {"att.time_faaaa", Where::every_block, {Dim::H, Dim::N, kNone}},
    {"att.gate.weight", Where::every_block, kSquare},
    {"ffn.time_maa_k", Where::every_block, kVector},
    {"ffn.time_maa_r", Where::every_block, kVector},
    {"ffn.receptance.weight", Where::every_block, kSquare},
};

std::vector<Expected> expected_of(const ModelConfig& config) {
  std::vector<Expected> all(std::begin(kCommon), std::end(kCommon));
  const auto own = of_version<std::span<const Expected>>(config.version, kOnly7, kOnly6);
  all.insert(all.end(), own.begin(), own.end());
  if (config.deep_embed) all.insert(all.end(), std::begin(kOnlyDeepEmbed), std::end(kOnlyDeepEmbed));
  return all;
}

int64_t size_of_dim(Dim dim, const ModelConfig& config) {
  switch (dim) {
    case Dim::none:
      return 1;
    case Dim::V:
      return config.vocab;
    case Dim::C:
      return config.n_embd;
    case Dim::H:
      return config.n_head;
    case Dim::N:
      return config.head_size;
    case Dim::F:
      return config.n_ffn;
    case Dim::Rw:
      return config.rank_w;
    case Dim::Ra:
      return config.rank_a;
    case Dim::Rv:
      return config.rank_v;
    case Dim::Rg:
      return config.rank_g;
    case Dim::Rm:
      return config.rank_mix;
    case Dim::Rm5:
      return 5 * config.rank_mix;
    case Dim::Rd:
      return config.rank_decay;
    case Dim::D:
      return config.deep_embed_rank;
    case Dim::DD:
      return config.deep_embed_rank * config.deep_embed_rank;
    case Dim::five:
      return 5;
  }
  return 0;
}

std::vector<int64_t> wanted_shape(const Expected& expected, const ModelConfig& config) {
  std::vector<int64_t> shape;
  for (const Dim dim : expected.shape) {
    if (dim != Dim::none) shape.push_back(size_of_dim(dim, config));
  }
  return shape;
}

std::string block_name(int64_t layer, std::string_view name) {
  return fmt::format("blocks.{}.{}", layer, name);
}

// "blocks.<l>.<rest>" taken apart; empty for other names and numbers that no model has.
struct BlockTensor {
  int64_t layer = 0;
  std::string_view rest;
};

std::optional<BlockTensor> parse_block_name(std::string_view name) {
  constexpr std::string_view kPrefix = "blocks.";
  constexpr size_t kMostDigits = 4;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  BlockTensor block;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), block.layer);
  const auto digits = static_cast<size_t>(end - name.data());
  if (error != std::errc{} || block.layer < 0 || digits > kMostDigits || digits >= name.size())
    return std::nullopt;
  if (name[digits] != '.') return std::nullopt;
  block.rest = name.substr(digits + 1);
  return block;
}

const StoredTensor* find_part(const Checkpoint& checkpoint, std::string_view part) {
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (tensor.name.find(part) != std::string::npos) return &tensor;
  }
  return nullptr;
}

// A part of a name that gives away an architecture we do not run.
struct Foreign {
  std::string_view part;
  std::string_view title;
};

constexpr Foreign kForeign[] = {
    {".qkv.", "RWKV-7b, whose attention over earlier tokens (DEA) this program lacks,"},
    {".ffn.enn.", "RWKV-8"},
    {".att.gate_w1", "the RWKV-6 training variant x060a/b/c"},
    {".att.time_maa_rkvw_w1", "the RWKV-6 training variant x060a/b/c"},
    {".att.time_offset", "a model with time_offset (an RWKV-6/7 derivative)"},
    {".self_attn.", "a Transformer or a conversion of one"},
};

// Names the architecture of a model that is neither RWKV-7 nor RWKV-6.
Error refuse_unknown(const Checkpoint& checkpoint) {
  const StoredTensor* norm = find_part(checkpoint, ".att.ln_x.");
  const StoredTensor* gate = find_part(checkpoint, ".att.gate.weight");
  const StoredTensor* mix = find_part(checkpoint, ".att.time_mix_");
  if (norm != nullptr && (gate != nullptr || mix != nullptr)) {
    return unsupported(fmt::format("RWKV-5 is not supported (found {} without time_maa_*)",
                                   gate != nullptr ? gate->name : mix->name));
  }
  if (mix != nullptr)
    return unsupported(fmt::format("RWKV-4 is not supported (found {} without ln_x)", mix->name));
  if (const StoredTensor* state = find_part(checkpoint, ".att.time_state")) {
    return unsupported(fmt::format("is a tuned state, not a model (found {})", state->name));
  }
  if (checkpoint.tensors().empty()) return corrupt("holds no tensors");
  return unsupported(fmt::format(
      "is neither an RWKV-7 nor an RWKV-6 model (found {} tensors, the first is {} {})",
      checkpoint.tensors().size(), checkpoint.tensors()[0].name, shape_text(checkpoint.tensors()[0].shape)));
}

Result<int> version_of(const Checkpoint& checkpoint) {
  for (const Foreign& foreign : kForeign) {
    if (const StoredTensor* found = find_part(checkpoint, foreign.part)) {
      return unsupported(fmt::format("{} is not supported (found {})", foreign.title, found->name));
    }
  }
  if (find_part(checkpoint, ".att.r_k") != nullptr) return 7;
  if (find_part(checkpoint, ".att.time_maa_x") != nullptr) return 6;
  return refuse_unknown(checkpoint);
}

// Returns the size of axis `axis` of a matrix.
Result<int64_t> read_size(const Checkpoint& checkpoint, const std::string& name, size_t axis) {
  const StoredTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return corrupt(fmt::format("tensor {} is missing", name));
  if (tensor->shape.size() != 2 || tensor->count() == 0) {
    return corrupt(fmt::format("tensor {} has shape {}; wanted a matrix that is not empty", name,
                               shape_text(tensor->shape)));
  }
  return tensor->shape[axis];
}

Status read_sizes7(const Checkpoint& checkpoint, ModelConfig& config) {
  FULMAR_ASSIGN(config.n_head, read_size(checkpoint, "blocks.0.att.r_k", 0));
  FULMAR_ASSIGN(config.head_size, read_size(checkpoint, "blocks.0.att.r_k", 1));
  FULMAR_ASSIGN(config.rank_w, read_size(checkpoint, "blocks.0.att.w1", 1));
  FULMAR_ASSIGN(config.rank_a, read_size(checkpoint, "blocks.0.att.a1", 1));
  FULMAR_ASSIGN(config.rank_g, read_size(checkpoint, "blocks.0.att.g1", 1));
  if (config.n_layer > 1) {
    FULMAR_ASSIGN(config.rank_v, read_size(checkpoint, "blocks.1.att.v1", 1));
  }
  const bool has_table = find_part(checkpoint, ".ffn.s_emb.") != nullptr;
  if (!has_table) return {};
  config.deep_embed = true;
  FULMAR_ASSIGN(config.deep_embed_rank, read_size(checkpoint, "blocks.0.ffn.s1", 1));
  constexpr int64_t kMaxDeepRank = 1 << 15;
  if (config.deep_embed_rank > kMaxDeepRank) {
    return corrupt(fmt::format("tensor blocks.0.ffn.s1 has {} columns; wanted at most {}",
                               config.deep_embed_rank, kMaxDeepRank));
  }
  return {};
}

Status read_sizes6(const Checkpoint& checkpoint, ModelConfig& config) {
  FULMAR_ASSIGN(config.n_head, read_size(checkpoint, "blocks.0.att.time_faaaa", 0));
  FULMAR_ASSIGN(config.head_size, read_size(checkpoint, "blocks.0.att.time_faaaa", 1));
  FULMAR_ASSIGN(const int64_t mixes, read_size(checkpoint, "blocks.0.att.time_maa_w1", 1));
  if (mixes % 5 != 0) {
    return corrupt(
        fmt::format("tensor blocks.0.att.time_maa_w1 has {} columns; wanted a multiple of 5", mixes));
  }
  config.rank_mix = mixes / 5;
  FULMAR_ASSIGN(config.rank_decay, read_size(checkpoint, "blocks.0.att.time_decay_w1", 1));
  return {};
}

Result<ModelConfig> read_sizes(const Checkpoint& checkpoint) {
  ModelConfig config;
  FULMAR_ASSIGN(config.version, version_of(checkpoint));
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (const std::optional<BlockTensor> block = parse_block_name(tensor.name)) {
      config.n_layer = std::max(config.n_layer, block->layer + 1);
    }
  }
  FULMAR_ASSIGN(config.vocab, read_size(checkpoint, "emb.weight", 0));
  FULMAR_ASSIGN(config.n_embd, read_size(checkpoint, "emb.weight", 1));
  FULMAR_ASSIGN(config.n_ffn, read_size(checkpoint, "blocks.0.ffn.key.weight", 0));
  FULMAR_TRY(of_version(config.version, read_sizes7, read_sizes6)(checkpoint, config));
  const std::array<int64_t, 2> heads = {config.n_head, config.head_size};
  if (checked_product(heads) != config.n_embd) {
    return corrupt(fmt::format("{} heads of {} channels do not make the width {} of emb.weight",
                               config.n_head, config.head_size, config.n_embd));
  }
  return config;
}

// Returns the metadata under `key`; empty: there is none.
std::string_view said(const Checkpoint& checkpoint, const char* key) {
  const auto found = checkpoint.metadata().find(key);
  return found == checkpoint.metadata().end() ? std::string_view() : std::string_view(found->second);
}

// Checks a config.json's sizes against those of the tensors; else missing layers would go unnoticed.
Status check_said_sizes(const Checkpoint& checkpoint, const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {kLayersFact, config.n_layer}, {kWidthFact, config.n_embd}, {kVocabularyFact, config.vocab}};
  for (const auto& [key, size] : sizes) {
    const std::string_view text = said(checkpoint, key);
    if (text.empty() || text == std::to_string(size)) continue;
    return corrupt(fmt::format("{} is {}; the tensors make {}", key, printable(text), size));
  }
  return {};
}

// Checks that ln0 exists, or that something says that it is part of the embedding.
Status judge_fusion(const Checkpoint& checkpoint, ModelConfig& config) {
  config.embedding_normed = said(checkpoint, kFusedFact) == "true";
  const StoredTensor* norm = find_part(checkpoint, "blocks.0.ln0.");
  if (config.embedding_normed && norm != nullptr) {
    return corrupt(fmt::format("{} is true, yet there is {}", kFusedFact, norm->name));
  }
  if (config.embedding_normed || norm != nullptr) return {};
  return corrupt(
      fmt::format("tensor blocks.0.ln0.weight is missing; wanted it, or a config.json beside the "
                  "weights that says embedding_layer_norm_fused: true"));
}

std::vector<int64_t> without_unit_axes(std::span<const int64_t> shape) {
  std::vector<int64_t> kept;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(kept), [](int64_t size) { return size != 1; });
  return kept;
}

Status check_tensor(const StoredTensor& tensor, const std::vector<int64_t>& wanted) {
  const bool vector = wanted.size() == 1;
  const bool fits =
      vector ? without_unit_axes(tensor.shape) == without_unit_axes(wanted) : tensor.shape == wanted;
  if (!fits) {
    return corrupt(fmt::format("tensor {} has shape {}; wanted {}", tensor.name, shape_text(tensor.shape),
                               shape_text(wanted)));
  }
  const bool matrix = wanted.size() == 2 && tensor.name.ends_with(".weight");
  const bool coded = is_block(tensor.dtype) || (is_scaled(tensor.dtype) && tensor.scales != nullptr);
  if (is_kernel_float(tensor.dtype) || (matrix && coded)) return {};
  return unsupported(
      fmt::format("tensor {} has type {}; wanted f32, f16 or bf16", tensor.name, name_of(tensor.dtype)));
}

// Checks one expected tensor, counts its numbers and notes it as known.
Status check_expected(const Checkpoint& checkpoint, const Expected& expected, const std::string& name,
                      ModelConfig& config, std::unordered_set<std::string_view>& known) {
  const StoredTensor* tensor = checkpoint.find(name);
  const std::vector<int64_t> wanted = wanted_shape(expected, config);
  if (tensor == nullptr) {
    return corrupt(fmt::format("tensor {} is missing; wanted shape {}", name, shape_text(wanted)));
  }
  FULMAR_TRY(check_tensor(*tensor, wanted));
  config.parameters += tensor->count();
  known.insert(tensor->name);
  return {};
}

Status check_all(const Checkpoint& checkpoint, ModelConfig& config,
                 std::unordered_set<std::string_view>& known) {
  const std::vector<Expected> all = expected_of(config);
  for (const Expected& expected : all) {
    if (expected.where != Where::outside) continue;
    FULMAR_TRY(check_expected(checkpoint, expected, std::string(expected.name), config, known));
  }
  for (int64_t layer = 0; layer < config.n_layer; layer++) {
    for (const Expected& expected : all) {
      if (expected.where == Where::outside) continue;
      if (expected.where == Where::first_block && (layer > 0 || config.embedding_normed)) continue;
      if (expected.where == Where::later_blocks && layer == 0) continue;
      FULMAR_TRY(check_expected(checkpoint, expected, block_name(layer, expected.name), config, known));
    }
  }
  return {};
}

// Sorts tensors that no expectation covers: harmless ones become oddities, the others an Error.
Status judge_others(const Checkpoint& checkpoint, const std::unordered_set<std::string_view>& known,
                    ModelConfig& config) {
  bool dead_v = false;
  size_t outside = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (known.contains(tensor.name)) continue;
    const std::optional<BlockTensor> block = parse_block_name(tensor.name);
    if (block && is_unused(config.version, block->layer, block->rest)) {
      dead_v = true;
    } else if (block && block->rest == "att.time_state") {
      config.time_state = true;
    } else if (tensor.name.starts_with("blocks.")) {
      return unsupported(
          fmt::format("tensor {} {} is not part of RWKV-{}; ignoring it would change the results",
                      tensor.name, shape_text(tensor.shape), config.version));
    } else if (outside++ < kMaxOddities) {
      config.oddities.push_back(fmt::format("{} {} is not used", tensor.name, shape_text(tensor.shape)));
    }
  }
  if (outside > kMaxOddities) {
    config.oddities.push_back(fmt::format("{} more tensors are not used", outside - kMaxOddities));
  }
  if (dead_v) config.oddities.push_back("blocks.0.att.v0/v1/v2 are present but never used");
  if (config.time_state) config.oddities.push_back("a tuned initial state (att.time_state) is included");
  return {};
}

// Finds the type of most numbers; notes others as an oddity.
void judge_types(const Checkpoint& checkpoint, const std::unordered_set<std::string_view>& known,
                 ModelConfig& config) {
  struct TypeCount {
    DType dtype;
    int64_t numbers = 0;
    int64_t tensors = 0;
  };
  std::vector<TypeCount> shares;
  for (const Format& format : kFormats) shares.push_back({format.dtype});
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (!known.contains(tensor.name)) continue;
    for (TypeCount& share : shares) {
      if (share.dtype != tensor.dtype) continue;
      share.numbers += tensor.count();
      share.tensors++;
    }
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TypeCount& a, const TypeCount& b) { return a.numbers > b.numbers; });
  config.dtype = shares[0].dtype;
  for (size_t i = 1; i < shares.size(); i++) {
    if (shares[i].tensors == 0) continue;
    config.oddities.push_back(fmt::format("{} tensors ({} numbers) are {} among {}", shares[i].tensors,
                                          shares[i].numbers, name_of(shares[i].dtype),
                                          name_of(config.dtype)));
  }
}

}  // namespace

Result<ModelConfig> identify(const Checkpoint& checkpoint) {
  FULMAR_ASSIGN(ModelConfig config, read_sizes(checkpoint));
  FULMAR_TRY(check_said_sizes(checkpoint, config));
  FULMAR_TRY(judge_fusion(checkpoint, config));
  std::unordered_set<std::string_view> known;
  FULMAR_TRY(check_all(checkpoint, config, known));
  FULMAR_TRY(judge_others(checkpoint, known, config));
  judge_types(checkpoint, known, config);
  if (config.embedding_normed) config.oddities.push_back("ln0 lies in the embedding");
  config.oddities.insert(config.oddities.end(), checkpoint.remarks().begin(), checkpoint.remarks().end());
  return config;
}

bool is_unused(int version, int64_t layer, std::string_view rest) {
  static constexpr std::string_view kUnused7[] = {"att.v0", "att.v1", "att.v2"};
  const auto names = of_version<std::span<const std::string_view>>(version, kUnused7, {});
  return layer == 0 && std::find(names.begin(), names.end(), rest) != names.end();
}

}  // namespace fulmar
