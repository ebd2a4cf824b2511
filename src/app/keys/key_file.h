// Changes the file of --api-keys, one change at a time over all processes.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"
#include "server/core/api_keys.h"

namespace fulmar {

// Reads the keys, lets `change` alter them and replaces the file; if it fails, the file stays unchanged.
// `new_file`: a missing file holds no keys. Waits for other processes that change the file: they hold a lock
// on "<path>.lock", which is never removed.
Status change_api_keys(const std::filesystem::path& path, bool new_file,
                       const std::function<Status(std::vector<ApiKey>&)>& change);

}  // namespace fulmar
