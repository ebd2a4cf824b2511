// The steps between an adapter's files and its entry in the registry, which all routes and the command line
// share.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <variant>

#include "server/adapters/adapter_registry.h"

namespace fulmar {

// Each returns the version, or an error after which nothing has changed: 400 for ids that are no adapter's
// name and for files that are refused, 507 beyond the host's budget. They read and check files: not to be
// called on IO threads.

// Registers the files of an upload.
std::variant<std::string, ApiError> register_files(AdapterRegistry& registry, NewAdapter adapter,
                                                   AdapterOptions options, std::span<const NamedBytes> files);
// Registers the file or folder adapter.root, which must lie below the folder of adapters.
std::variant<std::string, ApiError> register_below_root(AdapterRegistry& registry, NewAdapter adapter,
                                                        AdapterOptions options);
// Reads the file or folder `path` below the folder of adapters, and registers nothing.
std::variant<AdapterParcel, ApiError> read_below_root(const AdapterRegistry& registry,
                                                      const std::string& path, AdapterOptions options);
// Registers a file or folder wherever it lies.
std::variant<std::string, ApiError> register_path(AdapterRegistry& registry, NewAdapter adapter,
                                                  AdapterOptions options, const std::filesystem::path& path);

}  // namespace fulmar
