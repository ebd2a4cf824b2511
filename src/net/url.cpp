// Percent escapes, query strings, request targets and http URLs.
#include "net/url.h"

#include <fmt/format.h>

#include <charconv>

#include "base/utf8.h"

namespace fulmar {
namespace {

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

bool is_valid_text(std::string_view text) {
  return text.find('\0') == std::string_view::npos && is_utf8(text);
}

bool starts_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && equals_ignoring_case(text.substr(0, start.size()), start);
}

constexpr std::string_view kScheme = "http://", kSecureScheme = "https://";
constexpr uint16_t kPort = 80, kSecurePort = 443;
constexpr size_t kShown = 200;  // bytes of a URL in an error

// Parses what follows the scheme; `shown` is the URL in errors, `port_of_scheme` the scheme's port.
Result<Url> parse_behind_scheme(std::string_view rest, std::string_view shown, uint16_t port_of_scheme) {
  rest = rest.substr(0, rest.find('#'));
  const size_t begin = rest.find_first_of("/?");
  std::string_view authority = rest.substr(0, begin);
  Url out;
  out.port = port_of_scheme;
  const std::string_view written = begin == std::string_view::npos ? std::string_view() : rest.substr(begin);
  if (!written.starts_with('/')) out.target.push_back('/');
  out.target.append(written);
  if (authority.find('@') != std::string_view::npos)
    return invalid(fmt::format("URL '{}' holds a user name", shown));

  std::string_view port;
  bool has_port = false;
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos)
      return invalid(fmt::format("URL '{}' has no ']' after its address", shown));
    out.host = authority.substr(1, bracket - 1);
    const std::string_view after = authority.substr(bracket + 1);
    has_port = after.starts_with(':');
    if (!after.empty() && !has_port)
      return invalid(fmt::format("URL '{}' has text between address and port", shown));
    port = has_port ? after.substr(1) : std::string_view();
  } else {
    const size_t colon = authority.find(':');
    has_port = colon != std::string_view::npos;
    out.host = authority.substr(0, colon);
    port = has_port ? authority.substr(colon + 1) : std::string_view();
  }
  if (out.host.empty()) return invalid(fmt::format("URL '{}' has no host", shown));
  if (has_port) {
    const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (failure != std::errc() || end != port.data() + port.size() || out.port == 0) {
      return invalid(fmt::format("URL '{}' has port '{}', wanted 1..65535", shown, port));
    }
  }
  return out;
}

// Returns a target without the scheme and the authority of an absolute one.
std::string_view behind_authority(std::string_view target) {
  if (!starts_ignoring_case(target, kScheme)) return target;
  target.remove_prefix(kScheme.size());
  const size_t begin = target.find_first_of("/?");
  return begin == std::string_view::npos ? std::string_view("/") : target.substr(begin);
}

}  // namespace

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '%') {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return invalid(fmt::format("broken escape '{}', wanted %XX", text.substr(i, 3)));
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  if (!is_valid_text(out)) return invalid("decoded text holds a NUL byte or invalid UTF-8");
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_plain(c)) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out;
}

Result<Query> parse_query(std::string_view text) {
  Query query;
  while (!text.empty()) {
    const size_t ampersand = text.find('&');
    const std::string_view part = text.substr(0, ampersand);
    text = ampersand == std::string_view::npos ? std::string_view() : text.substr(ampersand + 1);
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    FULMAR_ASSIGN(std::string name, percent_decode(part.substr(0, equals), true));
    std::string value;
    if (equals != std::string_view::npos) {
      FULMAR_ASSIGN(value, percent_decode(part.substr(equals + 1), true));
    }
    query.add(std::move(name), std::move(value));
  }
  return query;
}

Result<Target> parse_target(std::string_view target) {
  if (target == "*") return Target{"*", {}};
  target = behind_authority(target.substr(0, target.find('#')));
  if (target.empty() || (target.front() != '/' && target.front() != '?')) {
    return invalid(fmt::format("request target '{}' does not begin with '/'", target.substr(0, 80)));
  }
  const size_t question = target.find('?');
  Target out;
  std::string_view path = target.substr(0, question);
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);  // an escaped one belongs to a name
  FULMAR_ASSIGN(out.path, percent_decode(path));
  if (out.path.empty()) out.path.push_back('/');
  if (question != std::string_view::npos) {
    FULMAR_ASSIGN(out.query, parse_query(target.substr(question + 1)));
  }
  return out;
}

std::string_view raw_path(std::string_view target) {
  const std::string_view path = behind_authority(target);
  return path.substr(0, path.find_first_of("?#"));
}

Result<Url> parse_url(std::string_view url) {
  const std::string_view shown = url.substr(0, kShown);
  if (!starts_ignoring_case(url, kScheme)) {
    return invalid(fmt::format("URL '{}' does not begin with http://", shown));
  }
  return parse_behind_scheme(url.substr(kScheme.size()), shown, kPort);
}

Result<Url> parse_web_url(std::string_view url) {
  if (!starts_ignoring_case(url, kSecureScheme)) return parse_url(url);
  FULMAR_ASSIGN(Url out,
                parse_behind_scheme(url.substr(kSecureScheme.size()), url.substr(0, kShown), kSecurePort));
  out.secure = true;
  return out;
}

std::string host_and_port(std::string_view host, uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

}  // namespace fulmar
