// Checksums of files, as hubs publish them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub_listing.h"

namespace fulmar {

// Lower-case hex of the file's checksum of that kind (none: empty). Reads the file once.
Result<std::string> file_digest(const std::filesystem::path& file, Checksum::Kind kind);

// corrupt, naming both, when the file is not the one meant.
Status check_file(const std::filesystem::path& file, const Checksum& wanted);

}  // namespace fulmar
