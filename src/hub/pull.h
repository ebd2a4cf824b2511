// Getting a model and its vocabulary from a hub into a folder: resumed where they broke off, checked, and
// there under their names only when whole.
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
  int attempts = 5;  // in a row that bring nothing new
};

struct Pulled {
  std::filesystem::path model;
  std::optional<std::filesystem::path> vocabulary;  // nothing: the repository has none that fits
};

// `progress` is told the name of the file under way and how much of it is there, 0 to 1.
Result<Pulled> pull(const HubName& name, const PullOptions& options,
                    const std::function<void(const std::string& file, double fraction)>& progress);

// "https://host" of --endpoint or else HF_ENDPOINT. An error says so when neither names a hub.
Result<std::string> hub_endpoint(const std::string& flag, const char* environment);

}  // namespace fulmar
