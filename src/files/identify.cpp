#include "files/identify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <unordered_set>

#include "files/hub_facts.h"
#include "files/versions.h"

namespace fulmar {
namespace {

constexpr size_t kMaxOddities = 32;

Error unsupported(std::string text) { return {ErrorKind::unsupported, std::move(text)}; }
Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

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

// Names the architecture of a model of none of the versions.
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
  return unsupported(fmt::format("is neither an {} model (found {} tensors, the first is {} {})",
                                 each_version("RWKV-", " nor an "), checkpoint.tensors().size(),
                                 checkpoint.tensors()[0].name, shape_text(checkpoint.tensors()[0].shape)));
}

Result<int> version_in(const Checkpoint& checkpoint) {
  for (const Foreign& foreign : kForeign) {
    if (const StoredTensor* found = find_part(checkpoint, foreign.part)) {
      return unsupported(fmt::format("{} is not supported (found {})", foreign.title, found->name));
    }
  }
  for (const Version& version : versions()) {
    if (find_part(checkpoint, version.sign) != nullptr) return version.number;
  }
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

// Reads the sizes that a version's tensors alone have: heads, low-rank widths, deep embeddings.
Status read_own_sizes(const Checkpoint& checkpoint, const Version& version, ModelConfig& config) {
  FULMAR_ASSIGN(config.n_head, read_size(checkpoint, block_name(0, version.heads), 0));
  FULMAR_ASSIGN(config.head_size, read_size(checkpoint, block_name(0, version.heads), 1));
  for (const RankSize& rank : version.ranks) {
    if (rank.block >= config.n_layer && rank.block > 0) continue;
    const std::string name = block_name(rank.block, rank.tensor);
    FULMAR_ASSIGN(const int64_t columns, read_size(checkpoint, name, 1));
    if (columns % rank.parts != 0) {
      return corrupt(
          fmt::format("tensor {} has {} columns; wanted a multiple of {}", name, columns, rank.parts));
    }
    config.*rank.size = columns / rank.parts;
  }
  if (!version.deep_embed || find_part(checkpoint, ".ffn.s_emb.") == nullptr) return {};
  config.deep_embed = true;
  FULMAR_ASSIGN(config.deep_embed_rank, read_size(checkpoint, "blocks.0.ffn.s1", 1));
  constexpr int64_t kMaxDeepRank = 1 << 15;
  if (config.deep_embed_rank > kMaxDeepRank) {
    return corrupt(fmt::format("tensor blocks.0.ffn.s1 has {} columns; wanted at most {}",
                               config.deep_embed_rank, kMaxDeepRank));
  }
  return {};
}

Result<ModelConfig> read_sizes(const Checkpoint& checkpoint) {
  ModelConfig config;
  FULMAR_ASSIGN(config.version, version_in(checkpoint));
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (const std::optional<BlockTensor> block = parse_block_name(tensor.name)) {
      config.n_layer = std::max(config.n_layer, block->layer + 1);
    }
  }
  FULMAR_ASSIGN(config.vocab, read_size(checkpoint, "emb.weight", 0));
  FULMAR_ASSIGN(config.n_embd, read_size(checkpoint, "emb.weight", 1));
  FULMAR_ASSIGN(config.n_ffn, read_size(checkpoint, "blocks.0.ffn.key.weight", 0));
  FULMAR_TRY(read_own_sizes(checkpoint, version_of(config.version), config));
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
Status check_expected(const Checkpoint& checkpoint, const ModelTensor& expected, const std::string& name,
                      ModelConfig& config, std::unordered_set<std::string_view>& known) {
  const StoredTensor* tensor = checkpoint.find(name);
  const std::vector<int64_t> wanted = shape_of(expected, config);
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
  const std::span<const ModelTensor> all = version_of(config.version).tensors;
  for (const ModelTensor& expected : all) {
    if (in_blocks(expected)) continue;
    FULMAR_TRY(check_expected(checkpoint, expected, std::string(expected.name), config, known));
  }
  for (int64_t layer = 0; layer < config.n_layer; layer++) {
    for (const ModelTensor& expected : all) {
      if (!in_block(expected, layer, config)) continue;
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
  const std::span<const ModelTensor> all = version_of(version).tensors;
  const auto found = std::ranges::find(all, rest, &ModelTensor::name);
  return layer == 0 && found != all.end() && found->where == Where::later_blocks;
}

}  // namespace fulmar
