// Changing the file of --api-keys, one change after the other over all processes.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"
#include "server/core/api_keys.h"

namespace fulmar {

// Reads the keys, lets `change` alter them and writes them in the place of the old ones; where it fails, the
// file stays as it is. `new_file`: a file that is not there holds no keys. Waits for others that change the
// file: they hold a lock on "<path>.lock", which stays behind.
Status change_api_keys(const std::filesystem::path& path, bool new_file,
                       const std::function<Status(std::vector<ApiKey>&)>& change);

}  // namespace fulmar
