// The file of --api-keys: who may use the server, and how much of it. The file holds hashes; a key itself is
// shown once, when it is made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct ApiKey {
  std::string name;                 // 1 to 64 letters, digits, '.', '_', '-'; one of a kind
  std::string hash;                 // "sha256:" and 64 hexadecimal digits
  int64_t requests_per_minute = 0;  // each limit: 0 for none
  int64_t tokens_per_minute = 0;    // of prompts and answers together
  int64_t max_rows = 0;             // under way at one time, over all requests
  // Opens everything and sees what is others', too; has no routes.
  bool admin = false;
  // Paths that the key opens; "/*" at the end of one takes any rest but administration, of which each path is
  // listed in full. Empty: every route that generates or informs, none that administers.
  std::vector<std::string> routes;

  bool operator==(const ApiKey&) const = default;
};

bool is_key_name(std::string_view text);

// Whether a route of a key stands for all paths below it.
bool is_route_pattern(std::string_view route);

// A new key: "fmk-" and 43 letters and digits, 256 bits of the system's random numbers. An error when there
// are none to be had.
Result<std::string> make_key();
// What the file keeps of a key.
std::string hash_of_key(std::string_view key);

// {"keys":[{"name":..,"hash":..,"requests_per_minute":..,..}]}. Errors are of kind invalid and name the entry
// and the member: unknown members, names or hashes that are there twice, and more than 10,000 keys are
// refused.
Result<std::vector<ApiKey>> parse_api_keys(std::string_view text);
std::string format_api_keys(const std::vector<ApiKey>& keys);

// Errors name the file. At most 16 MiB are read.
Result<std::vector<ApiKey>> read_api_keys(const std::filesystem::path& path);
// Replaces the file as a whole; readable by its owner alone.
Status write_api_keys(const std::filesystem::path& path, const std::vector<ApiKey>& keys);

}  // namespace fulmar
