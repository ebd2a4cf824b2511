// Reading, checking and writing the file of keys.
#include "server/core/api_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/read_file.h"
#include "base/sha256.h"
#include "net/json.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kPrefix = "fmk-";
constexpr std::string_view kHashPrefix = "sha256:";
constexpr size_t kHashDigits = 64;
constexpr size_t kLongestName = 64;
constexpr size_t kMostKeys = 10'000;
constexpr size_t kMostBytes = size_t{16} << 20;
constexpr int64_t kLargestLimit = int64_t{1} << 40;

bool is_hash(std::string_view text) {
  return text.starts_with(kHashPrefix) && text.size() == kHashPrefix.size() + kHashDigits &&
         text.substr(kHashPrefix.size()).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Error bad_key(size_t index, std::string_view what) {
  return Error{ErrorKind::invalid, fmt::format("keys[{}]: {}", index, what)};
}

Result<std::vector<std::string>> read_routes(const JsonValue& value) {
  std::vector<std::string> routes;
  if (!value.is_array()) {
    return Error{ErrorKind::invalid, fmt::format("routes is {}; wanted an array of paths", describe(value))};
  }
  for (const JsonValue& route : value.as_array()) {
    if (!route.is_string() || !route.as_string().starts_with('/')) {
      return Error{ErrorKind::invalid,
                   fmt::format("routes holds {}; wanted paths that begin with '/'", describe(route))};
    }
    routes.push_back(route.as_string());
  }
  return routes;
}

Status read_member(ApiKey& key, const std::string& name, const JsonValue& entry, const JsonValue& value) {
  const auto limit = [&](int64_t& target) -> Status {
    FULMAR_ASSIGN(const auto number, get_int(entry, name, 0, kLargestLimit));
    target = number.value_or(0);
    return {};
  };
  if (name == "requests_per_minute") return limit(key.requests_per_minute);
  if (name == "tokens_per_minute") return limit(key.tokens_per_minute);
  if (name == "max_rows") return limit(key.max_rows);
  if (name == "routes") {
    FULMAR_ASSIGN(key.routes, read_routes(value));
    return {};
  }
  if (name == "admin") {
    if (!value.is_bool())
      return Error{ErrorKind::invalid, "admin is " + describe(value) + "; wanted true or false"};
    key.admin = value.as_bool();
    return {};
  }
  if (name != "name" && name != "hash") {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' is no member of a key; wanted name, hash, requests_per_minute, "
                             "tokens_per_minute, max_rows, admin or routes",
                             name)};
  }
  FULMAR_ASSIGN(const auto text, get_string(entry, name));
  (name == "name" ? key.name : key.hash) = text.value_or("");
  return {};
}

Result<ApiKey> read_key(const JsonValue& entry) {
  if (!entry.is_object()) {
    return Error{ErrorKind::invalid, fmt::format("is {}; wanted an object", describe(entry))};
  }
  ApiKey key;
  for (const auto& [name, value] : entry.as_object().members())
    FULMAR_TRY(read_member(key, name, entry, value));
  if (!is_key_name(key.name)) {
    return Error{ErrorKind::invalid,
                 fmt::format("name is '{}'; wanted 1 to {} letters, digits, '.', '_' or '-'",
                             key.name.substr(0, kLongestName), kLongestName)};
  }
  if (!is_hash(key.hash)) {
    return Error{ErrorKind::invalid,
                 fmt::format("hash of '{}': wanted '{}' and {} hexadecimal digits in lower case", key.name,
                             kHashPrefix, kHashDigits)};
  }
  if (key.admin && !key.routes.empty()) {
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' administers and lists routes; it opens all of them", key.name)};
  }
  return key;
}

Error system_error(const std::filesystem::path& path, std::string_view action) {
  return Error{ErrorKind::io,
               fmt::format("key file '{}': cannot {}: {}", path.string(), action, std::strerror(errno))};
}

// Gives a new file the owner, the group and the mode of the one that it is to replace, if there is one.
Status take_after(int file, const std::filesystem::path& old) {
  struct stat wanted {
  }, own{};
  if (::stat(old.c_str(), &wanted) != 0) return errno == ENOENT ? Status() : system_error(old, "look at");
  if (::fstat(file, &own) != 0) return system_error(old, "write beside");
  const bool same = own.st_uid == wanted.st_uid && own.st_gid == wanted.st_gid;
  if (!same && ::fchown(file, wanted.st_uid, wanted.st_gid) != 0) return system_error(old, "keep the owner");
  return ::fchmod(file, wanted.st_mode & 07777) == 0 ? Status() : system_error(old, "keep the mode");
}

// Writes everything and closes.
Status fill(int file, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const Error error = system_error(path, "write");
      ::close(file);
      return error;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  const bool kept = ::fsync(file) == 0;
  if (::close(file) != 0 || !kept) return system_error(path, "write");
  return {};
}

}  // namespace

bool is_key_name(std::string_view text) {
  constexpr std::string_view kSigns = "._-";
  const bool plain = std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kSigns.find(c) != std::string_view::npos;
  });
  return plain && !text.empty() && text.size() <= kLongestName;
}

bool is_route_pattern(std::string_view route) { return route.ends_with("/*"); }

Result<std::string> make_key() {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  constexpr size_t kLength = 43;  // 62^43 is more than 2^256
  constexpr unsigned kFair = 256 / kDigits.size() * kDigits.size();
  std::string key(kPrefix);
  while (key.size() < kPrefix.size() + kLength) {
    std::array<unsigned char, 64> bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
      return Error{ErrorKind::internal, "no random numbers from the system"};
    }
    for (const unsigned char byte : bytes) {
      if (byte < kFair && key.size() < kPrefix.size() + kLength) key += kDigits[byte % kDigits.size()];
    }
  }
  return key;
}

std::string hash_of_key(std::string_view key) { return std::string(kHashPrefix) + sha256_hex(key); }

Result<std::vector<ApiKey>> parse_api_keys(std::string_view text) {
  FULMAR_ASSIGN(const JsonValue file, parse_json(text, {.max_bytes = kMostBytes}));
  FULMAR_ASSIGN(const JsonValue::Array* entries, get_array(file, "keys"));
  if (!entries) return Error{ErrorKind::invalid, "'keys' is missing; wanted {\"keys\":[...]}"};
  for (const auto& [name, value] : file.as_object().members()) {
    if (name != "keys")
      return Error{ErrorKind::invalid, fmt::format("'{}' is no member of the file; wanted 'keys'", name)};
  }
  if (entries->size() > kMostKeys) {
    return Error{ErrorKind::invalid,
                 fmt::format("'keys' holds {} entries; at most {} are allowed", entries->size(), kMostKeys)};
  }
  std::vector<ApiKey> keys;
  std::set<std::string> names, hashes;
  for (const JsonValue& entry : *entries) {
    Result<ApiKey> key = read_key(entry);
    if (!key) return bad_key(keys.size(), key.error().text);
    if (!names.insert(key->name).second) {
      return bad_key(keys.size(), fmt::format("the name '{}' is there twice", key->name));
    }
    if (!hashes.insert(key->hash).second) {
      return bad_key(keys.size(), fmt::format("the key of '{}' is there under another name", key->name));
    }
    keys.push_back(std::move(*key));
  }
  return keys;
}

std::string format_api_keys(const std::vector<ApiKey>& keys) {
  std::string text = "{\"keys\":[";
  for (const ApiKey& key : keys) {
    JsonWriter json;
    json.begin_object().member("name", key.name).member("hash", key.hash);
    const auto limit = [&](std::string_view name, int64_t value) {
      if (value > 0) json.member(name, value);
    };
    limit("requests_per_minute", key.requests_per_minute);
    limit("tokens_per_minute", key.tokens_per_minute);
    limit("max_rows", key.max_rows);
    if (key.admin) json.member("admin", true);
    if (!key.routes.empty()) {
      json.key("routes").begin_array();
      for (const std::string& route : key.routes) json.value(route);
      json.end_array();
    }
    text += (&key == keys.data() ? "\n  " : ",\n  ") + json.end_object().take();
  }
  return text + "\n]}\n";
}

Result<std::vector<ApiKey>> read_api_keys(const std::filesystem::path& path) {
  const auto text = read_file(path, kMostBytes);
  if (!text.ok()) return Error{text.error().kind, "key file " + text.error().text};
  Result<std::vector<ApiKey>> keys = parse_api_keys(*text);
  if (keys) return keys;
  return Error{keys.error().kind, fmt::format("key file '{}': {}", path.string(), keys.error().text)};
}

std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;
  std::error_code error;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, error); ++i) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

Status write_api_keys(const std::filesystem::path& path, const std::vector<ApiKey>& keys) {
  const std::filesystem::path target = behind_links(path);
  std::string beside = target.string() + ".XXXXXX";
  const int file = ::mkstemp(beside.data());  // of mode 0600
  if (file < 0) return system_error(path, "write beside");
  const Status like = take_after(file, target);
  Status written = fill(file, format_api_keys(keys), path);
  if (!like.ok()) written = like;
  if (written.ok() && ::rename(beside.c_str(), target.c_str()) != 0) written = system_error(path, "replace");
  if (!written.ok()) ::unlink(beside.c_str());
  return written;
}

}  // namespace fulmar
