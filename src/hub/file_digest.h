// Checksums of files, as hubs publish them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "hub/hub_listing.h"

namespace fulmar {

// Returns the file's checksum of that kind in lower-case hex (none: empty). Reads the file once.
Result<std::string> file_digest(const std::filesystem::path& file, Checksum::Kind kind);

// Checks the file's checksum. Error corrupt: it differs from the wanted one; names both.
Status check_file(const std::filesystem::path& file, const Checksum& wanted);

}  // namespace fulmar
