#include "adapters/writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fulmar {

bool is_written(AdapterForm form) {
  return form == AdapterForm::peft || form == AdapterForm::lightning || form == AdapterForm::gguf;
}

Status write_adapter(const std::filesystem::path& path, AdapterForm form, const Adapter& adapter,
                     const AdapterFacts& facts) {
  if (!adapter.scale_known) {
    return Error{ErrorKind::invalid, "the adapter's scale is not known; give alpha or scale"};
  }
  if (!adapter.states.empty()) {
    return no_place_for(adapter.states.front().name, "initial states", name_of(form));
  }
  switch (form) {
    case AdapterForm::peft:
      return write_peft(path, adapter);
    case AdapterForm::lightning:
      return write_lightning(path, adapter, facts);
    case AdapterForm::gguf:
      return write_gguf_lora(path, adapter, facts);
    default:
      return Error{ErrorKind::unsupported, fmt::format("{} adapters are not written", name_of(form))};
  }
}

Error no_place_for(std::string_view name, std::string_view what, std::string_view form) {
  return {ErrorKind::unsupported, fmt::format("'{}': {} has no place for {}", name, form, what)};
}

Delta with_scale_inside(const Delta& delta) {
  Delta folded = delta;
  HostTensor& last = delta.d.empty() ? folded.b : folded.d;
  std::vector<float> values = last.floats();
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) * delta.scale);
  HostTensor kept = host_tensor(values, last.shape, last.dtype);
  last = kept.floats() == values ? std::move(kept) : host_tensor(values, last.shape, DType::f32);
  folded.scale = 1;
  return folded;
}

template <class Number>
std::optional<Number> alpha_of(Number scale, Number divisor) {
  const Number near = scale * divisor, most = std::numeric_limits<Number>::max();
  for (const Number alpha : {near, std::nextafter(near, most), std::nextafter(near, -most)}) {
    if (alpha / divisor == scale) return alpha;
  }
  return std::nullopt;
}

template std::optional<float> alpha_of(float, float);
template std::optional<double> alpha_of(double, double);

}  // namespace fulmar
