// What models were called when they were pulled: lines "OWNER/NAME[:FILE] <tab> local name" in a file of the
// folder of models, so that clients can go on naming them so.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "hub/hub_name.h"

namespace fulmar {

// "OWNER/NAME" or "OWNER/NAME:FILE".
std::string name_text(const HubName& hub);

// Appends a line, unless the last one of that name says the same.
Status remember_pull(const std::filesystem::path& folder, const HubName& hub, const std::string& local);

// Local names by those of the hub; later lines win. Empty without the file. At most 1 MiB of it is read.
std::map<std::string, std::string> pulled_names(const std::filesystem::path& folder);

}  // namespace fulmar
