#include "adapters/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "files/gguf_names.h"

namespace fulmar {
namespace {

struct ModuleName {
  std::string_view module, weight;
  int version = 0;
};

// Modules of a flash-linear-attention block.
constexpr ModuleName kModules[] = {
    {"attn.r_proj", "att.receptance.weight", 7},
    {"attn.k_proj", "att.key.weight", 7},
    {"attn.v_proj", "att.value.weight", 7},
    {"attn.o_proj", "att.output.weight"},
    {"ffn.key", "ffn.key.weight", 7},
    {"ffn.value", "ffn.value.weight"},
    {"attn.w_lora.lora.0", "att.w1", 7},
    {"attn.w_lora.lora.2", "att.w2", 7},
    {"attn.a_lora.lora.0", "att.a1", 7},
    {"attn.a_lora.lora.2", "att.a2", 7},
    {"attn.v_lora.lora.0", "att.v1", 7},
    {"attn.v_lora.lora.2", "att.v2", 7},
    {"attn.g_lora.lora.0", "att.g1", 7},
    {"attn.g_lora.lora.2", "att.g2", 7},
    {"attn.r_proj.linear", "att.receptance.weight", 6},
    {"attn.k_proj.linear", "att.key.weight", 6},
    {"attn.v_proj.linear", "att.value.weight", 6},
    {"attn.g_proj.linear", "att.gate.weight", 6},
    {"ffn.key.linear", "ffn.key.weight", 6},
    {"ffn.receptance.linear", "ffn.receptance.weight", 6},
};

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

// Takes "<number>.<rest>" apart.
std::optional<LayerName> numbered(std::string_view text) {
  constexpr ptrdiff_t kMostDigits = 4;
  LayerName found;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found.layer);
  const ptrdiff_t digits = end - text.data();
  if (error != std::errc{} || found.layer < 0 || digits > kMostDigits) return std::nullopt;
  if (static_cast<size_t>(digits) >= text.size() || *end != '.') return std::nullopt;
  if (digits > 1 && text[0] == '0') return std::nullopt;  // one name for a layer
  found.rest = text.substr(static_cast<size_t>(digits) + 1);
  return found;
}

}  // namespace

std::optional<LayerName> layer_name(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!name.starts_with(kBlocks)) return std::nullopt;
  return numbered(name.substr(kBlocks.size()));
}

std::optional<OfficialWeight> weight_of_module(std::string_view module) {
  if (module == "lm_head" || module == "head") return OfficialWeight{"head.weight"};
  if (module == "model.embeddings" || module == "emb") return OfficialWeight{"emb.weight"};
  if (const auto block = layer_name(module)) {
    const std::string_view part = block->rest.substr(0, std::min<size_t>(4, block->rest.size()));
    if ((part != "att." && part != "ffn.") || !is_word(block->rest.substr(4))) return std::nullopt;
    return OfficialWeight{fmt::format("{}.weight", module)};
  }
  constexpr std::string_view kModel = "model.", kLayers = "layers.";
  if (module.starts_with(kModel)) module.remove_prefix(kModel.size());
  if (!module.starts_with(kLayers)) return std::nullopt;
  const auto block = numbered(module.substr(kLayers.size()));
  if (!block) return std::nullopt;
  const auto* found = std::find_if(std::begin(kModules), std::end(kModules),
                                   [&](const ModuleName& one) { return one.module == block->rest; });
  if (found == std::end(kModules)) return std::nullopt;
  return OfficialWeight{fmt::format("blocks.{}.{}", block->layer, found->weight), found->version};
}

std::optional<std::string> module_of_weight(std::string_view weight, ModuleNames names, int version) {
  constexpr std::string_view kWeight = ".weight";
  const bool official = names == ModuleNames::official;
  if (weight == "head.weight") return official ? "head" : "lm_head";
  if (weight == "emb.weight") return official ? "emb" : "model.embeddings";
  const auto block = layer_name(weight);
  if (!block) return std::nullopt;
  if (official) {
    std::string module(weight.substr(0, weight.size() - std::min(kWeight.size(), weight.size())));
    const auto back = weight_of_module(module);
    return back && back->name == weight ? std::optional(std::move(module)) : std::nullopt;
  }
  const auto* found = std::find_if(std::begin(kModules), std::end(kModules), [&](const ModuleName& one) {
    return one.weight == block->rest && (one.version == 0 || version == 0 || one.version == version);
  });
  if (found == std::end(kModules)) return std::nullopt;
  return fmt::format("model.layers.{}.{}", block->layer, found->module);
}

bool is_input_major(std::string_view name) {
  if (name == "emb.weight") return true;
  return std::any_of(std::begin(kVersions), std::end(kVersions), [&](int version) {
    const ModelTensor* const tensor = model_tensor(name, version);
    return tensor != nullptr && tensor->part == GgufPart::transposed && tensor->shape[2].times == 0;
  });
}

std::string_view without_model(std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (!name.starts_with(kModel)) return name;
  const std::string_view rest = name.substr(kModel.size());
  const bool official = rest.starts_with("blocks.") || rest.starts_with("emb.") ||
                        rest.starts_with("head.") || rest.starts_with("ln_out.");
  return official ? rest : name;
}

int version_of_name(std::string_view name) {
  int only = 0;
  for (const int version : kVersions) {
    if (model_tensor(name, version) == nullptr) continue;
    if (only != 0) return 0;
    only = version;
  }
  return only;
}

bool is_state_name(std::string_view name) {
  const auto block = layer_name(name);
  return block && block->rest == "att.time_state";
}

}  // namespace fulmar
