// An adapter as it is handed over: one file, a folder, or a file with what says more of it beside.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "adapters/adapter.h"
#include "adapters/reading.h"
#include "base/result.h"

namespace fulmar {

struct NamedBytes {
  std::string name;  // without folders
  std::string_view bytes;
};

struct AdapterParcel {
  Adapter adapter;
  std::string manifest;  // compact JSON of a package that has one; empty: it has none
};

// Reads the adapter at a path, as read_adapter() does.
Result<AdapterParcel> read_parcel(const std::filesystem::path& path, const AdapterOptions& options);

// Reads an adapter that lies in memory: one file, and perhaps a second one that says more: X.json,
// adapter_config.json, adapter.json, or checkpoint.json, which files with a manifest inside do without.
// Errors: invalid, for other numbers and kinds of files; as read_adapter().
Result<AdapterParcel> read_parcel(std::span<const NamedBytes> files, AdapterOptions options);

}  // namespace fulmar
