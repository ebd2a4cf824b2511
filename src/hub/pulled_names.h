// Remembers the names under which models were pulled: lines "OWNER/NAME[:FILE] <tab> local name" in a file in
// the folder of models, so that clients can go on using those names.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "hub/hub_name.h"

namespace fulmar {

// Returns "OWNER/NAME" or "OWNER/NAME:FILE".
std::string name_text(const HubName& hub);

// Appends a line, unless the last one for that name is the same.
Status remember_pull(const std::filesystem::path& folder, const HubName& hub, const std::string& local);

// Returns local names by hub names; later lines win. Empty without the file. Reads at most 1 MiB of it.
std::map<std::string, std::string> pulled_names(const std::filesystem::path& folder);

}  // namespace fulmar
