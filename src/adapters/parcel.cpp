#include "adapters/parcel.h"

#include <fmt/format.h>

#include "adapters/config_json.h"
#include "adapters/source.h"

namespace fulmar {
namespace {

constexpr size_t kLargestConfig = size_t{1} << 20;

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

ByteSpan bytes_of(const NamedBytes& file) {
  return {reinterpret_cast<const std::byte*>(file.bytes.data()), file.bytes.size()};
}

Result<std::string> manifest_of(const AdapterSource& source) {
  if (source.form != AdapterForm::lightning || source.configuration.empty()) return std::string();
  FULMAR_ASSIGN(const ConfigJson manifest, ConfigJson::parse("manifest", source.configuration));
  return jsoncpp_text(manifest.object(), {});
}

// Returns the source of a file whose configuration lies beside it.
Result<AdapterSource> configured(AdapterForm form, const NamedBytes& file, const NamedBytes& beside,
                                 size_t most) {
  if (beside.bytes.size() > most) {
    return invalid(
        fmt::format("{} has {} bytes; at most {} are read", beside.name, beside.bytes.size(), most));
  }
  AdapterSource source;
  source.form = form;
  source.configuration = beside.bytes;
  FULMAR_ASSIGN(source.parts, tensors_in(bytes_of(file)));
  return source;
}

Result<AdapterSource> source_of(const NamedBytes& file, const NamedBytes* beside, AdapterOptions& options) {
  if (beside && beside->name == "adapter_config.json") {
    return configured(AdapterForm::peft, file, *beside, kLargestConfig);
  }
  if (beside && beside->name == "adapter.json") {
    return configured(AdapterForm::lightning, file, *beside, kLargestManifest);
  }
  const std::string text(beside ? beside->bytes : std::string_view());
  const bool checkpoint = beside && beside->name == "checkpoint.json";
  if (beside && !checkpoint) FULMAR_TRY(read_sidecar(beside->name, text, options));
  FULMAR_ASSIGN(AdapterSource source, adapter_in(bytes_of(file), checkpoint ? text : std::string()));
  source.key_major = std::filesystem::path(file.name).extension() == ".st";
  return source;
}

}  // namespace

Result<AdapterParcel> read_parcel(const std::filesystem::path& path, const AdapterOptions& options) {
  AdapterParcel parcel;
  FULMAR_ASSIGN(parcel.adapter, read_adapter(path, options));
  if (parcel.adapter.form != AdapterForm::lightning) return parcel;
  FULMAR_ASSIGN(const AdapterSource source, open_adapter(path));
  FULMAR_ASSIGN(parcel.manifest, manifest_of(source));
  return parcel;
}

Result<AdapterParcel> read_parcel(std::span<const NamedBytes> files, AdapterOptions options) {
  const NamedBytes *file = nullptr, *beside = nullptr;
  for (const NamedBytes& one : files) {
    const NamedBytes*& place = one.name.ends_with(".json") ? beside : file;
    if (place) return invalid(fmt::format("two files of one kind, '{}' and '{}'", place->name, one.name));
    place = &one;
  }
  if (!file) return invalid("missing adapter PTH");
  FULMAR_ASSIGN(const AdapterSource source, source_of(*file, beside, options));
  AdapterParcel parcel;
  FULMAR_ASSIGN(parcel.adapter, read_adapter(source, options));
  FULMAR_ASSIGN(parcel.manifest, manifest_of(source));
  return parcel;
}

}  // namespace fulmar
