// Downloads a model and its vocabulary from a hub into a folder. Interrupted downloads are resumed, files are
// verified, and they get their names only when complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "hub/hub_name.h"
#include "hub/transfer.h"

namespace fulmar {

struct PullOptions {
  HubAccess hub;
  std::string revision = "main";
  std::string as;  // local name; empty: the file's own
  std::filesystem::path folder;
  int attempts = 5;                         // in a row that bring next to nothing
  int64_t most_bytes = int64_t{512} << 30;  // of all files together
  // Tells whether a file or folder is a model, or why not; empty: whatever comes is kept.
  std::function<Status(const std::filesystem::path&)> check_model = {};
};

struct Pulled {
  std::filesystem::path model;                      // a file, or a folder with all that belongs to the model
  std::optional<std::filesystem::path> vocabulary;  // nothing: the repository has none that fits
};

// Gets the name of the current file, the bytes of it that have arrived and its size (-1: unknown). Returning
// false cancels the pull; what has arrived is kept.
using PullProgress = std::function<bool(const std::string& file, int64_t bytes, int64_t size)>;

// Fails where what has come is no model: a file is removed, a folder of files stays.
Result<Pulled> pull(const HubName& name, const PullOptions& options, const PullProgress& progress);

// Returns "https://host" from --endpoint or else HF_ENDPOINT; an error if neither names a hub.
Result<std::string> hub_endpoint(const std::string& flag, const char* environment);

}  // namespace fulmar
