#include "cache/redis_address.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace fulmar {
namespace {

constexpr std::string_view kPlain = "redis://", kEncrypted = "rediss://";

template <class Number>
std::optional<Number> whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      plain.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// Returns an error without the text itself, which may hold a password.
Error bad(std::string_view part) {
  return {ErrorKind::invalid,
          fmt::format("Redis URL: bad {}, wanted redis[s]://[[user]:password@]host[:port][/database]"
                      "[?cacert=FILE&cert=FILE&key=FILE]",
                      part)};
}

Status read_login(std::string_view login, RedisAddress& address) {
  const size_t colon = login.find(':');
  if (colon == std::string_view::npos) return bad("login");
  address.user = unescape(login.substr(0, colon));
  address.password = unescape(login.substr(colon + 1));
  return {};
}

Status read_files(std::string_view query, RedisAddress& address) {
  if (!address.encrypted) return bad("option, only rediss:// takes any");
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    const size_t sign = field.find('=');
    const std::string_view name = field.substr(0, sign);
    std::string* place = name == "cacert" ? &address.tls.authorities
                         : name == "cert" ? &address.tls.certificate
                         : name == "key"  ? &address.tls.key
                                          : nullptr;
    if (place == nullptr || sign == std::string_view::npos) return bad("option");
    *place = unescape(field.substr(sign + 1));
  }
  if (address.tls.certificate.empty() != address.tls.key.empty())
    return bad("option, cert and key go together");
  return {};
}

Status read_place(std::string_view place, RedisAddress& address) {
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return bad("host");
    port = place.substr(end + 1);
    if (!port.empty() && port.front() != ':') return bad("host");
    place = place.substr(1, end - 1);
  } else if (const size_t colon = place.rfind(':'); colon != std::string_view::npos) {
    port = place.substr(colon);
    place = place.substr(0, colon);
  }
  if (!port.empty()) {
    const auto number = whole<uint16_t>(port.substr(1));
    if (!number || *number == 0) return bad("port");
    address.port = *number;
  }
  if (place.empty()) return bad("host");
  address.host = std::string(place);
  return {};
}

}  // namespace

Result<RedisAddress> parse_redis_url(std::string_view url) {
  RedisAddress address;
  address.encrypted = url.starts_with(kEncrypted);
  if (!address.encrypted && !url.starts_with(kPlain)) {
    return Error{ErrorKind::invalid, "a Redis URL begins with redis:// or rediss://, this one does not"};
  }
  std::string_view rest = url.substr((address.encrypted ? kEncrypted : kPlain).size());
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    FULMAR_TRY(read_login(rest.substr(0, at), address));
    rest.remove_prefix(at + 1);
  }
  if (const size_t mark = rest.find('?'); mark != std::string_view::npos) {
    FULMAR_TRY(read_files(rest.substr(mark + 1), address));
    rest = rest.substr(0, mark);
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const auto database = whole<int64_t>(rest.substr(slash + 1));
    if (slash + 1 < rest.size() && (!database || *database < 0)) return bad("database");
    address.database = database.value_or(0);
    rest = rest.substr(0, slash);
  }
  FULMAR_TRY(read_place(rest, address));
  return address;
}

Result<RedisAddress> usable_redis_address(std::string_view url) {
  FULMAR_ASSIGN(RedisAddress address, parse_redis_url(url));
  if (address.encrypted) FULMAR_TRY(check_tls_files(address.tls));
  return address;
}

}  // namespace fulmar
