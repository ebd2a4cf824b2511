// llama.cpp's LoRA: a GGUF file with <GGUF name>.lora_a and .lora_b.
#include <fmt/format.h>

#include <map>

#include "adapters/names.h"
#include "adapters/reading.h"
#include "files/gguf_names.h"

namespace fulmar {
namespace {

struct LoraPair {
  const StoredTensor* a = nullptr;
  const StoredTensor* b = nullptr;
};

Result<int> version_in(const GgufFile& file) {
  const std::string_view name = file.text("general.architecture").value_or("missing");
  for (const int version : kVersions) {
    if (name == architecture_of(version)) return version;
  }
  return Error{ErrorKind::unsupported, fmt::format("the adapter is for '{}'; wanted {}", printable(name),
                                                   each_version("'rwkv", "' or ") + "'")};
}

// Checks the keys other than the architecture.
Status check_keys(const GgufFile& file) {
  const std::string_view type = file.text("adapter.type").value_or("missing");
  if (type != "lora") {
    return Error{ErrorKind::unsupported, fmt::format("adapter.type is '{}'; wanted 'lora'", printable(type))};
  }
  if (file.metadata.contains("adapter.alora.invocation_tokens")) {
    return Error{ErrorKind::unsupported, "adapter.alora.invocation_tokens is not supported"};
  }
  if (file.metadata.contains("adapter.lora.alpha") && !file.number("adapter.lora.alpha")) {
    return Error{ErrorKind::corrupt, "adapter.lora.alpha is no floating-point number"};
  }
  return {};
}

Result<std::map<std::string, LoraPair>> pairs_of(const CheckpointParts& parts) {
  std::map<std::string, LoraPair> pairs;
  constexpr size_t kEnding = 7;  // ".lora_a"
  for (const StoredTensor& tensor : parts.tensors) {
    const bool a = tensor.name.ends_with(".lora_a"), b = tensor.name.ends_with(".lora_b");
    if (!a && !b) {
      return Error{ErrorKind::corrupt, fmt::format("'{}' is neither .lora_a nor .lora_b", tensor.name)};
    }
    LoraPair& pair = pairs[tensor.name.substr(0, tensor.name.size() - kEnding)];
    (a ? pair.a : pair.b) = &tensor;
  }
  for (const auto& [name, pair] : pairs) {
    if (pair.a != nullptr && pair.b != nullptr) continue;
    return Error{ErrorKind::corrupt, fmt::format("'{}' has no {}; wanted both factors", name,
                                                 pair.a == nullptr ? ".lora_a" : ".lora_b")};
  }
  return pairs;
}

// Returns the official name of a matrix.
Result<std::string> matrix_name(const std::string& gguf, int version) {
  const GgufName name = official_name(gguf, version);
  if (name.official != gguf && gguf_name(name.official, version) == gguf) return name.official;
  return Error{ErrorKind::invalid, fmt::format("RWKV-{} has no tensor '{}'", version, gguf)};
}

}  // namespace

Result<Adapter> read_gguf_lora(const AdapterSource& source, const AdapterOptions& options) {
  FULMAR_TRY(refuse_scales(options, "the file says it in adapter.lora.alpha, or means a scale of 1"));
  FULMAR_TRY(refuse_init(options, "GGUF holds plain LoRA"));
  FULMAR_TRY(check_keys(source.gguf));
  FULMAR_ASSIGN(const int version, version_in(source.gguf));
  FULMAR_ASSIGN(const auto pairs, pairs_of(source.parts));
  const double alpha = source.gguf.number("adapter.lora.alpha").value_or(0);
  AdapterBuilder builder(source.form, options);
  FULMAR_TRY(builder.note_version(version, "general.architecture"));
  for (const auto& [name, pair] : pairs) {
    Delta delta;
    FULMAR_ASSIGN(delta.weight, matrix_name(name, version));
    StoredTensor a = *pair.a;
    if (delta.weight == "emb.weight" && a.shape.size() == 2) a = transposed(a);  // [V, r] there
    if (a.shape.size() == 2 && alpha != 0 && a.shape[0] > 0)
      delta.scale = alpha / static_cast<double>(a.shape[0]);
    FULMAR_ASSIGN(delta.a, builder.read(a));
    FULMAR_ASSIGN(delta.b, builder.read(*pair.b));
    FULMAR_TRY(builder.add(std::move(delta)));
  }
  return builder.finish();
}

}  // namespace fulmar
