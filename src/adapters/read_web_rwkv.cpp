// web-rwkv's and Ai00's LoRA: X.lora.0 [in, r] and X.lora.1 [out, r], vectors beside them. Whole matrices are
// differences there, and low-rank parts lie the other way round, so both are refused.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "adapters/names.h"
#include "adapters/reading.h"

namespace fulmar {
namespace {

constexpr std::string_view kA = ".lora.0", kB = ".lora.1";

// Returns the official name: RWKV-6's mixes and bonus have others there.
std::string official(std::string name) {
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{"time_first", "time_faaaa"},
                                 {"time_mix", "time_maa"}}) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

Status check_vector(const std::string& name, const StoredTensor& tensor) {
  const auto sizes =
      std::count_if(tensor.shape.begin(), tensor.shape.end(), [](int64_t n) { return n != 1; });
  const bool heads = name.ends_with(".att.r_k") || name.ends_with(".att.time_faaaa");
  if (sizes <= 1 || heads || is_state_name(name)) return {};
  return Error{ErrorKind::unsupported,
               fmt::format("'{}' {}: whole matrices of web-rwkv are differences, which are not supported; "
                           "wanted vectors and pairs {} and {}",
                           tensor.name, shape_text(tensor.shape), kA, kB)};
}

}  // namespace

Result<Adapter> read_web_rwkv(const AdapterSource& source, const AdapterOptions& options) {
  FULMAR_TRY(refuse_init(options, "web-rwkv holds plain LoRA"));
  std::map<std::string, const StoredTensor*> tensors;
  for (const StoredTensor& tensor : source.parts.tensors) {
    if (!tensors.emplace(official(tensor.name), &tensor).second) {
      return Error{ErrorKind::corrupt, fmt::format("two tensors are '{}'", official(tensor.name))};
    }
  }
  AdapterBuilder builder(source.form, options);
  for (const auto& [name, tensor] : tensors) {
    const bool a = name.ends_with(kA), b = name.ends_with(kB);
    const std::string stem = name.substr(0, name.size() - (a || b ? kA.size() : 0));
    if (!a && !b) {
      FULMAR_TRY(check_vector(name, *tensor));
      FULMAR_TRY(builder.add_whole(name, *tensor, true));
      continue;
    }
    const auto partner = tensors.find(stem + std::string(a ? kB : kA));
    if (partner == tensors.end()) {
      return Error{ErrorKind::corrupt, fmt::format("'{}' has no partner '{}{}'", name, stem, a ? kB : kA)};
    }
    if (b) continue;
    if (tensor->shape.size() != 2) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}' is {}; wanted [in, r]", name, shape_text(tensor->shape))};
    }
    const StoredTensor placed = transposed(*tensor);
    Delta delta;
    delta.weight = stem + ".weight";
    FULMAR_ASSIGN(delta.scale, scale_of_pair(delta.weight, placed.shape[0], options));
    FULMAR_ASSIGN(delta.a, builder.read(placed));
    FULMAR_ASSIGN(delta.b, builder.read(*partner->second));
    FULMAR_TRY(builder.add(std::move(delta)));
  }
  builder.adapter().scale_known = options.alpha || options.scale;
  return builder.finish();
}

}  // namespace fulmar
