// llama.cpp's LoRA as a GGUF file.
#include <fmt/format.h>

#include <algorithm>

#include "adapters/writing.h"
#include "files/gguf_names.h"
#include "files/gguf_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kForm = "GGUF";

// Returns the alpha that gives every delta its scale; 0: their scales are 1; nothing: there is none.
std::optional<float> common_alpha(const Adapter& adapter) {
  const auto all = [&](const auto& test) {
    return std::all_of(adapter.deltas.begin(), adapter.deltas.end(), test);
  };
  if (all([](const Delta& delta) { return delta.scale == 1; })) return 0.0f;
  const Delta& first = adapter.deltas.front();
  const auto alpha = static_cast<float>(first.scale * static_cast<double>(first.rank()));
  const bool fits = alpha != 0 && all([&](const Delta& delta) {
                      return static_cast<double>(alpha) / static_cast<double>(delta.rank()) == delta.scale;
                    });
  return fits ? std::optional(alpha) : std::nullopt;
}

GgufTensor tensor_of(std::string name, const HostTensor& tensor, bool turned) {
  const StoredTensor stored = tensor.stored({}), view = turned ? transposed(stored) : stored;
  return {std::move(name), tensor.dtype, view.shape, [view] { return gather_contiguous(view); }};
}

}  // namespace

Status write_gguf_lora(const std::filesystem::path& file, const Adapter& adapter, const AdapterFacts& facts) {
  const int version = adapter.version != 0 ? adapter.version : facts.version;
  if (version == 0) {
    return Error{
        ErrorKind::invalid,
        fmt::format("{} names the model's architecture, which the adapter does not say; give the base "
                    "model",
                    kForm)};
  }
  if (!adapter.whole.empty()) return no_place_for(adapter.whole.front().name, "whole tensors", kForm);
  const std::optional<float> alpha = common_alpha(adapter);
  std::vector<Delta> deltas;
  for (const Delta& delta : adapter.deltas) {
    if (delta.kind != DeltaKind::low_rank) return no_place_for(delta.weight, name_of(delta.kind), kForm);
    deltas.push_back(alpha ? delta : with_scale_inside(delta));
  }
  std::vector<GgufTensor> tensors;
  for (const Delta& delta : deltas) {
    const auto name = gguf_name(delta.weight, version);
    if (!name) return no_place_for(delta.weight, "this part of a model", kForm);
    tensors.push_back(tensor_of(*name + ".lora_a", delta.a, delta.weight == "emb.weight"));
    tensors.push_back(tensor_of(*name + ".lora_b", delta.b, false));
  }
  std::vector<GgufKey> keys = {{"general.architecture", architecture_of(version)},
                               {"general.type", "adapter"},
                               {"adapter.type", "lora"}};
  if (alpha.value_or(0) != 0) keys.push_back({"adapter.lora.alpha", *alpha});
  return write_gguf(file, keys, tensors);
}

}  // namespace fulmar
