#include "adapters/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "adapters/config_json.h"
#include "adapters/names.h"
#include "base/read_file.h"
#include "files/mapped_file.h"

namespace fulmar {
namespace {

constexpr size_t kLargestSidecar = size_t{1} << 16;

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

std::string shape_of(const HostTensor& tensor) { return shape_text(tensor.shape); }

// Checks a low-rank pair, and the magnitude of DoRA.
Status check_pair(const Delta& delta) {
  if (delta.a.shape.size() != 2 || delta.b.shape.size() != 2) {
    return corrupt(fmt::format("'{}': A is {} and B {}; wanted two dimensions each", delta.weight,
                               shape_of(delta.a), shape_of(delta.b)));
  }
  if (delta.b.shape[1] != delta.a.shape[0]) {
    return corrupt(fmt::format("'{}': A is {} and B {}; wanted B [out, {}]", delta.weight, shape_of(delta.a),
                               shape_of(delta.b), delta.a.shape[0]));
  }
  return {};
}

Status check_block(const Delta& delta) {
  const auto& shape = delta.d.shape;
  if (delta.kind == DeltaKind::miss) {
    if (shape.size() == 2) return {};
    return corrupt(fmt::format("'{}': MiSS is {}; wanted [r, out]", delta.weight, shape_of(delta.d)));
  }
  if (shape.size() == 3 && shape[1] == shape[2]) return {};
  return corrupt(fmt::format("'{}': Bat is {}; wanted [n, r, r]", delta.weight, shape_of(delta.d)));
}

template <class Item>
Status sort_by_name(std::vector<Item>& items, std::string Item::*name) {
  std::sort(items.begin(), items.end(), [&](const Item& x, const Item& y) { return x.*name < y.*name; });
  const auto twice = std::adjacent_find(items.begin(), items.end(),
                                        [&](const Item& x, const Item& y) { return x.*name == y.*name; });
  if (twice == items.end()) return {};
  return corrupt(fmt::format("two tensors of the file change '{}'; wanted one", (*twice).*name));
}

// Returns whether an adapter's scale is neither in its file nor given.
bool needs_scale(const AdapterSource& source, const AdapterOptions& options) {
  if (options.alpha || options.scale || !options.init.empty()) return false;
  if (source.form != AdapterForm::rwkv_peft && source.form != AdapterForm::web_rwkv) return false;
  const auto of_pair = [](const StoredTensor& tensor) {
    return tensor.name.ends_with(".lora_A") || tensor.name.ends_with(".lora.0");
  };
  return std::any_of(source.parts.tensors.begin(), source.parts.tensors.end(), of_pair);
}

// Reads alpha or scale from the file beside an adapter, if there is one.
Status read_beside(std::filesystem::path path, AdapterOptions& options) {
  path.replace_extension(".json");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  FULMAR_ASSIGN(const std::string text, read_file(path, kLargestSidecar));
  return read_sidecar(path.filename().string(), text, options);
}

}  // namespace

AdapterBuilder::AdapterBuilder(AdapterForm form, const AdapterOptions& options)
    : most_bytes_(options.most_bytes) {
  adapter_.form = form;
}

Result<HostTensor> AdapterBuilder::read(const StoredTensor& stored) {
  const bool kept = is_kernel_float(stored.dtype);
  const std::array<int64_t, 2> sizes = {stored.count(),
                                        kept ? static_cast<int64_t>(size_of(stored.dtype)) : 4};
  const auto bytes = checked_product(sizes);
  if (!bytes || static_cast<uint64_t>(*bytes) > most_bytes_ - bytes_) {
    return Error{ErrorKind::resource,
                 fmt::format("tensor '{}' {} and those before it take more than {}", stored.name,
                             shape_text(stored.shape), size_text(most_bytes_))};
  }
  bytes_ += static_cast<uint64_t>(*bytes);
  return read_tensor(stored);
}

Status AdapterBuilder::add(Delta delta) {
  if (delta.d.empty()) FULMAR_TRY(check_pair(delta));
  if (!delta.d.empty()) FULMAR_TRY(check_block(delta));
  if (delta.rank() < 1 || delta.rank() > kMostAdapterRank) {
    return corrupt(
        fmt::format("'{}' has rank {}; wanted 1 to {}", delta.weight, delta.rank(), kMostAdapterRank));
  }
  if (!std::isfinite(delta.scale)) {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}': the scale is {}; wanted a finite number", delta.weight, delta.scale)};
  }
  FULMAR_TRY(note_version(version_of_name(delta.weight), delta.weight));
  adapter_.deltas.push_back(std::move(delta));
  return {};
}

Status AdapterBuilder::add_whole(const std::string& name, const StoredTensor& stored, bool key_major) {
  StoredTensor placed = stored;
  const bool state = is_state_name(name);
  if (state && key_major && placed.shape.size() == 3) {
    std::swap(placed.shape[1], placed.shape[2]);
    std::swap(placed.strides[1], placed.strides[2]);
  }
  FULMAR_ASSIGN(HostTensor value, read(placed));
  FULMAR_TRY(note_version(version_of_name(name), name));
  (state ? adapter_.states : adapter_.whole).push_back({name, std::move(value)});
  return {};
}

Status AdapterBuilder::note_version(int version, std::string_view name) {
  if (version == 0 || version == adapter_.version) return {};
  if (adapter_.version == 0) {
    adapter_.version = version;
    return {};
  }
  return corrupt(fmt::format("'{}' is of RWKV-{}; other tensors of the file are of RWKV-{}", name, version,
                             adapter_.version));
}

Result<Adapter> AdapterBuilder::finish() {
  FULMAR_TRY(sort_by_name(adapter_.deltas, &Delta::weight));
  FULMAR_TRY(sort_by_name(adapter_.whole, &WholeTensor::name));
  FULMAR_TRY(sort_by_name(adapter_.states, &WholeTensor::name));
  for (const Delta& delta : adapter_.deltas) {
    const auto both = std::find_if(adapter_.whole.begin(), adapter_.whole.end(),
                                   [&](const WholeTensor& one) { return one.name == delta.weight; });
    if (both != adapter_.whole.end()) {
      return corrupt(fmt::format("'{}' is both replaced and changed; wanted one of the two", delta.weight));
    }
  }
  if (adapter_.deltas.empty() && adapter_.whole.empty() && adapter_.states.empty()) {
    return corrupt("the file changes nothing: no tensor of a known adapter kind");
  }
  if (adapter_.content_version.empty()) adapter_.content_version = digest_of(adapter_);
  return std::move(adapter_);
}

Result<double> scale_of_pair(std::string_view weight, int64_t rank, const AdapterOptions& options) {
  if (options.scale) return *options.scale;
  if (options.alpha) return *options.alpha / static_cast<double>(std::max<int64_t>(rank, 1));
  if (options.scale_may_lack) return 1.0;
  return Error{ErrorKind::invalid,
               fmt::format("'{}': the file does not say its alpha; give alpha or scale", weight)};
}

Status refuse_scales(const AdapterOptions& options, std::string_view why) {
  for (const auto& [name, value] : {std::pair("alpha", options.alpha), {"scale", options.scale}}) {
    if (value) {
      return Error{ErrorKind::invalid, fmt::format("{} {} would have no effect: {}", name, *value, why)};
    }
  }
  return {};
}

Status refuse_init(const AdapterOptions& options, std::string_view why) {
  if (options.init.empty()) return {};
  return Error{ErrorKind::invalid,
               fmt::format("the initial factors '{}' would have no effect: {}", options.init.string(), why)};
}

Result<Adapter> read_adapter(const AdapterSource& source, const AdapterOptions& options) {
  if (options.alpha && options.scale) {
    return Error{ErrorKind::invalid, fmt::format("both alpha {} and scale {} are given; wanted one",
                                                 *options.alpha, *options.scale)};
  }
  switch (source.form) {
    case AdapterForm::peft:
      return read_peft(source, options);
    case AdapterForm::lightning:
      return read_lightning(source, options);
    case AdapterForm::gguf:
      return read_gguf_lora(source, options);
    case AdapterForm::web_rwkv:
      return read_web_rwkv(source, options);
    default:
      return read_rwkv_peft(source, options);
  }
}

Status read_sidecar(std::string_view name, const std::string& text, AdapterOptions& options) {
  if (text.size() > kLargestSidecar) {
    return corrupt(fmt::format("{} has {} bytes; at most {} are read", name, text.size(), kLargestSidecar));
  }
  FULMAR_ASSIGN(const ConfigJson config, ConfigJson::parse(name, text));
  for (const simdjson::dom::key_value_pair member : config.object()) {
    const bool alpha = member.key == "alpha";
    if (!alpha && member.key != "scale") {
      return corrupt(
          fmt::format("{}: there is no '{}'; wanted alpha or scale", config.what(), printable(member.key)));
    }
    FULMAR_ASSIGN(const double value, config.number(member.key));
    if (!(std::abs(value) <= kMostAdapterFactor)) {
      return corrupt(fmt::format("{}: {} is {}; wanted {} to {}", config.what(), member.key, value,
                                 -kMostAdapterFactor, kMostAdapterFactor));
    }
    std::optional<double>& place = alpha ? options.alpha : options.scale;
    if (place) return corrupt(fmt::format("{}: {} is given twice", config.what(), member.key));
    place = value;
  }
  return {};
}

Result<Adapter> read_adapter(const std::filesystem::path& path, const AdapterOptions& options) {
  Result<Adapter> adapter = watched([&]() -> Result<Adapter> {
    FULMAR_ASSIGN(const AdapterSource source, open_adapter(path));
    if (!needs_scale(source, options)) return read_adapter(source, options);
    AdapterOptions more = options;
    FULMAR_TRY(read_beside(path, more));
    return read_adapter(source, more);
  });
  if (adapter.ok()) return adapter;
  const std::string& text = adapter.error().text;
  if (text.find(path.string()) != std::string::npos) return adapter;
  return Error{adapter.error().kind, fmt::format("{}: {}", path.string(), text)};
}

}  // namespace fulmar
