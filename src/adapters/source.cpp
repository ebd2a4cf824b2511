#include "adapters/source.h"

#include <fmt/format.h>

#include <algorithm>

#include "adapters/names.h"
#include "base/function_ref.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "files/mapped_file.h"
#include "files/pth.h"
#include "files/safetensors.h"
#include "files/zip.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestConfig = size_t{1} << 20;
constexpr const char* kCheckpointName = "checkpoint.json";

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

bool any_name(const CheckpointParts& parts, auto&& test) {
  return std::any_of(parts.tensors.begin(), parts.tensors.end(),
                     [&](const StoredTensor& tensor) { return test(std::string_view(tensor.name)); });
}

// Returns the manifest inside a MiSS package; nothing where there is none.
Result<std::optional<std::string>> manifest_in(ByteSpan file) {
  if (!looks_like_zip(file)) return std::optional<std::string>();
  FULMAR_ASSIGN(const std::vector<ZipMember> members, read_zip_directory(file));
  std::optional<std::string> found;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with("/miss.json")) continue;
    if (found) return invalid("the archive holds two manifests 'miss.json'; wanted one");
    if (member.size > kLargestManifest) {
      return invalid(
          fmt::format("miss.json has {} bytes; at most {} are read", member.size, kLargestManifest));
    }
    FULMAR_TRY(check_payload(file, member));
    found = as_text(file.subspan(member.offset, member.size));
  }
  return found;
}

// Tells forms that differ by the names of their tensors alone.
Result<AdapterForm> form_by_names(const CheckpointParts& parts) {
  const auto has = [&](std::initializer_list<std::string_view> endings) {
    return any_name(parts, [&](std::string_view name) {
      return std::any_of(endings.begin(), endings.end(), [&](auto end) { return name.ends_with(end); });
    });
  };
  if (has({".lora.0", ".lora.1"})) return AdapterForm::web_rwkv;
  if (any_name(parts, [](std::string_view name) { return name.starts_with("base_model.model."); })) {
    return invalid(
        "the tensors are those of Hugging Face PEFT, and adapter_config.json is missing; "
        "give the folder that holds both");
  }
  if (has({".D.master"})) return AdapterForm::lightning;
  if (has({".lora_A", ".lora_B", ".disha", ".bone"})) return AdapterForm::rwkv_peft;
  if (std::all_of(parts.tensors.begin(), parts.tensors.end(),
                  [](const StoredTensor& tensor) { return is_state_name(without_model(tensor.name)); })) {
    return AdapterForm::state;
  }
  return invalid(fmt::format("the file changes nothing: none of its {} tensors is of a known adapter kind",
                             parts.tensors.size()));
}

Result<AdapterSource> read_gguf_adapter(ByteSpan file) {
  AdapterSource source;
  source.form = AdapterForm::gguf;
  FULMAR_ASSIGN(source.gguf, read_gguf(file));
  const auto type = source.gguf.text("general.type");
  if (type != "adapter") {
    return invalid(
        fmt::format("general.type is '{}'; wanted 'adapter'", printable(type.value_or("missing"))));
  }
  source.parts.tensors = std::move(source.gguf.tensors);
  return source;
}

// Reads <name> beside the configuration, in whichever container it is.
Result<AdapterSource> read_folder(const fs::path& folder, AdapterForm form, const char* configuration,
                                  size_t most, std::initializer_list<const char*> names) {
  AdapterSource source;
  source.form = form;
  FULMAR_ASSIGN(source.configuration, read_file(folder / configuration, most));
  std::error_code error;
  for (const char* name : names) {
    if (!fs::exists(folder / name, error)) continue;
    FULMAR_ASSIGN(source.parts, tensors_at(folder / name));
    return source;
  }
  return Error{ErrorKind::not_found, fmt::format("{} without {} beside it", configuration, *names.begin())};
}

Result<AdapterSource> open_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "adapter_config.json", error)) {
    return read_folder(folder, AdapterForm::peft, "adapter_config.json", kLargestConfig,
                       {"adapter_model.safetensors", "adapter_model.bin"});
  }
  if (fs::exists(folder / "adapter.json", error)) {
    return read_folder(folder, AdapterForm::lightning, "adapter.json", kLargestManifest, {"adapter.pth"});
  }
  return Error{ErrorKind::not_found, "the folder holds neither adapter_config.json nor adapter.json"};
}

// Returns the form of a file; `beside` reads the checkpoint.json that some files need.
Result<AdapterSource> form_of(ByteSpan file, FunctionRef<Result<std::string>()> beside) {
  if (looks_like_gguf(file)) return read_gguf_adapter(file);
  AdapterSource source;
  source.form = AdapterForm::lightning;
  FULMAR_ASSIGN(std::optional<std::string> manifest, manifest_in(file));
  FULMAR_ASSIGN(source.parts, tensors_in(file));
  if (manifest) {
    source.configuration = *std::move(manifest);
    return source;
  }
  FULMAR_ASSIGN(source.form, form_by_names(source.parts));
  if (source.form != AdapterForm::lightning) return source;
  FULMAR_ASSIGN(source.checkpoint, beside());
  source.digest = sha256_hex(as_text(file));
  return source;
}

Error lacks_checkpoint() {
  return invalid(
      fmt::format("a training checkpoint of rwkv_lightning without its manifest (miss.json) inside; "
                  "wanted its {} beside it",
                  kCheckpointName));
}

Result<AdapterSource> open_file(const fs::path& path) {
  FULMAR_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  FULMAR_ASSIGN(AdapterSource source, form_of(file->bytes(), [&]() -> Result<std::string> {
                  const fs::path name = path.parent_path() / kCheckpointName;
                  std::error_code error;
                  if (!fs::exists(name, error)) return lacks_checkpoint();
                  return read_file(name, kLargestManifest);
                }));
  source.parts.files.push_back(std::move(file));
  source.key_major = path.extension() == ".st";
  return source;
}

}  // namespace

Result<CheckpointParts> tensors_in(ByteSpan file) {
  if (looks_like_pth(file)) return read_pth(file);
  if (looks_like_safetensors(file)) return read_safetensors(file);
  return Error{ErrorKind::corrupt,
               fmt::format("neither a PyTorch file nor safetensors nor GGUF (its {} bytes "
                           "start with '{}')",
                           file.size(), printable(as_text(file.first(std::min<size_t>(file.size(), 8)))))};
}

Result<CheckpointParts> tensors_at(const fs::path& path) {
  FULMAR_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  Result<CheckpointParts> parts = tensors_in(file->bytes());
  if (!parts.ok()) {
    return Error{parts.error().kind, fmt::format("{}: {}", path.filename().string(), parts.error().text)};
  }
  parts->files.push_back(std::move(file));
  return parts;
}

Result<AdapterSource> adapter_in(ByteSpan file, const std::string& checkpoint) {
  return form_of(file, [&]() -> Result<std::string> {
    if (checkpoint.empty()) return lacks_checkpoint();
    if (checkpoint.size() <= kLargestManifest) return checkpoint;
    return invalid(fmt::format("{} has {} bytes; at most {} are read", kCheckpointName, checkpoint.size(),
                               kLargestManifest));
  });
}

Result<AdapterSource> open_adapter(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) ? open_folder(path) : open_file(path);
}

std::optional<AdapterForm> adapter_form_at(const fs::path& path) {
  const Result<AdapterSource> source = open_adapter(path);
  if (!source.ok()) return std::nullopt;
  return source->form;
}

}  // namespace fulmar
