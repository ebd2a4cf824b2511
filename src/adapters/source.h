// The first step of reading an adapter: which form a file or folder has, by its content. Knows no shapes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "adapters/adapter.h"
#include "base/result.h"
#include "files/checkpoint.h"
#include "files/gguf.h"

namespace fulmar {

// The tensors of an adapter's file, as views under its own names, and what was written beside them.
struct AdapterSource {
  AdapterForm form = AdapterForm::rwkv_peft;
  CheckpointParts parts;
  std::string configuration;  // JSON: adapter_config.json of peft, the manifest of lightning
  std::string checkpoint;     // JSON: checkpoint.json of a lightning checkpoint without a manifest
  std::string digest;         // of the file's bytes, SHA-256, where `checkpoint` is to be compared with them
  GgufFile gguf;              // of gguf: its keys; its tensors are in `parts`
  bool key_major = false;     // initial states are [head][key][value], as in web-rwkv's .st files
};

// Opens a folder with adapter_config.json or adapter.json, or a file. Errors: corrupt, for files that break
// their own format; invalid, for those that are no adapter, with what they are instead.
Result<AdapterSource> open_adapter(const std::filesystem::path& path);

// Returns the form of a file's bytes, which the result points into. A file of Hugging Face PEFT without its
// configuration is refused, and a checkpoint of rwkv_lightning that holds no manifest unless the text of its
// checkpoint.json is given; other files do not read that text.
Result<AdapterSource> adapter_in(ByteSpan file, const std::string& checkpoint = {});

// Returns the form, or nothing where the path holds a model or something that cannot be read.
std::optional<AdapterForm> adapter_form_at(const std::filesystem::path& path);

// The largest manifest and checkpoint.json that are read, in bytes.
inline constexpr size_t kLargestManifest = size_t{8} << 20;

// Reads the tensors of a file of any container under its own names; `file` outlives them.
Result<CheckpointParts> tensors_in(ByteSpan file);
// Reads likewise from a file at a path, which the result keeps mapped.
Result<CheckpointParts> tensors_at(const std::filesystem::path& path);

}  // namespace fulmar
