#include "files/gguf_names.h"

#include <fmt/format.h>

#include <charconv>

#include "files/identify.h"

namespace fulmar {
namespace {

constexpr std::string_view kStackedMixes = "time_mix_lerp_fused.weight";

// "<prefix><layer>.<rest>" taken apart; for names outside of blocks the layer is -1.
struct InBlock {
  int64_t layer = -1;
  std::string_view rest;
};

InBlock in_block(std::string_view name, std::string_view prefix) {
  constexpr ptrdiff_t kMostDigits = 4;
  const InBlock outside{-1, name};
  if (!name.starts_with(prefix)) return outside;
  name.remove_prefix(prefix.size());
  InBlock found;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.layer);
  const ptrdiff_t digits = end - name.data();
  if (error != std::errc{} || found.layer < 0 || digits > kMostDigits) return outside;
  if (static_cast<size_t>(digits) >= name.size() || *end != '.') return outside;
  found.rest = name.substr(static_cast<size_t>(digits) + 1);
  return found;
}

// Returns whether GGUF has a tensor inside blocks: the norm of the embedding stands outside.
bool inside_gguf_blocks(const ModelTensor& tensor) {
  return in_blocks(tensor) && tensor.where != Where::first_block;
}

const ModelTensor* find_gguf(const InBlock& name, int version) {
  for (const ModelTensor& tensor : version_of(version).tensors) {
    if (!tensor.gguf.empty() && tensor.gguf == name.rest && inside_gguf_blocks(tensor) == (name.layer >= 0)) {
      return &tensor;
    }
  }
  return nullptr;
}

std::string in_official_block(int64_t layer, std::string_view rest) {
  return fmt::format("blocks.{}.{}", layer, rest);
}

}  // namespace

GgufName official_name(std::string_view gguf, int version) {
  const InBlock name = in_block(gguf, "blk.");
  const ModelTensor* tensor = find_gguf(name, version);
  if (name.layer < 0) {
    if (tensor == nullptr) return {std::string(gguf)};
    const bool moved = tensor->where == Where::first_block;
    return {moved ? in_official_block(0, tensor->name) : std::string(tensor->name), tensor->part};
  }
  if (name.rest == kStackedMixes)
    return {in_official_block(name.layer, ""), GgufPart::stacked_mixes, name.layer};
  const std::string_view rest = tensor == nullptr ? name.rest : tensor->name;
  GgufPart part = tensor == nullptr ? GgufPart::plain : tensor->part;
  if (is_unused(version, name.layer, rest)) part = GgufPart::unused;
  return {in_official_block(name.layer, rest), part, name.layer};
}

const ModelTensor* model_tensor(std::string_view official, int version) {
  const InBlock name = in_block(official, "blocks.");
  for (const ModelTensor& tensor : version_of(version).tensors) {
    if (tensor.name == name.rest && in_blocks(tensor) == (name.layer >= 0)) return &tensor;
  }
  return nullptr;
}

std::string architecture_of(int version) { return fmt::format("rwkv{}", version); }

std::optional<std::string> gguf_name(std::string_view official, int version) {
  const ModelTensor* tensor = model_tensor(official, version);
  if (tensor == nullptr || tensor->gguf.empty()) return std::nullopt;
  if (!inside_gguf_blocks(*tensor)) return std::string(tensor->gguf);
  return fmt::format("blk.{}.{}", in_block(official, "blocks.").layer, tensor->gguf);
}

std::vector<std::string_view> mix_names(int version) {
  std::vector<std::string_view> names;
  for (const ModelTensor& tensor : version_of(version).tensors) {
    if (tensor.part == GgufPart::mix) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace fulmar
