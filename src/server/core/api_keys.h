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
  int64_t max_rows = 0;             // running or queued at one time, over all requests
  // Opens every route and sees what belongs to others; such a key has no list of routes.
  bool admin = false;
  // Paths that the key opens; one that ends with "/*" covers all below it except administration, whose paths
  // are listed in full. Empty: every route that generates or informs, none that administers.
  std::vector<std::string> routes;

  bool operator==(const ApiKey&) const = default;
};

bool is_key_name(std::string_view text);

// Tells whether a route in a key's list ends with "/*" and thus covers all paths below it.
bool is_route_pattern(std::string_view route);

// Makes a key: "fmk-" and 43 letters and digits from 256 random bits of the system. Fails when the system has
// no random numbers.
Result<std::string> make_key();
// Returns the hash that the file stores for a key.
std::string hash_of_key(std::string_view key);

// Parses {"keys":[{"name":..,"hash":..,"requests_per_minute":..,..}]}. Refuses unknown members, repeated
// names or hashes and more than 10,000 keys; errors are of kind invalid and name the entry and the member.
Result<std::vector<ApiKey>> parse_api_keys(std::string_view text);
std::string format_api_keys(const std::vector<ApiKey>& keys);

// Reads at most 16 MiB. Errors name the file.
Result<std::vector<ApiKey>> read_api_keys(const std::filesystem::path& path);
// Returns the path of the file that symbolic links at `path` lead to; it need not exist.
std::filesystem::path behind_links(std::filesystem::path path);
// Replaces the file behind links as a whole, with its owner, group and mode; a new one is readable by its
// owner alone. Fails where the owner cannot be kept.
Status write_api_keys(const std::filesystem::path& path, const std::vector<ApiKey>& keys);

}  // namespace fulmar
