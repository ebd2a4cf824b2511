// Reading Host (RFC 9110, 7.2).
#include "net/host_check.h"

#include <algorithm>
#include <cctype>

#include "net/client_address.h"

namespace fulmar {
namespace {

constexpr std::string_view kLoopback = "localhost";
constexpr size_t kShown = 100;  // bytes of a name in an error's text

// Returns the host without port, and without the dot that may end a name.
std::string_view name_of(std::string_view host) {
  host = without_port(host);
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool is_loopback_name(std::string_view name) {
  if (equals_ignoring_case(name, kLoopback)) return true;
  if (name.size() <= kLoopback.size()) return false;
  const size_t begin = name.size() - kLoopback.size();
  return name[begin - 1] == '.' && equals_ignoring_case(name.substr(begin), kLoopback);
}

bool is_allowed(std::string_view host, const std::vector<std::string>& allowed) {
  const std::string_view name = name_of(host);
  return read_address(host) || is_loopback_name(name) ||
         std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& one) { return equals_ignoring_case(one, name); });
}

}  // namespace

bool is_meant_for_us(const Headers& headers, const std::vector<std::string>& allowed) {
  return std::all_of(headers.begin(), headers.end(), [&](const auto& field) {
    return !equals_ignoring_case(field.first, "Host") || is_allowed(field.second, allowed);
  });
}

bool is_host_name(std::string_view text) {
  constexpr size_t kLongest = 253;  // RFC 1035, 2.3.4
  if (text.empty() || text.size() > kLongest || text.front() == '.' || text.back() == '.') return false;
  return text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
         });
}

bool is_loopback_host(std::string_view host) {
  const auto address = read_address(host);
  return address ? address->is_loopback() : equals_ignoring_case(host, kLoopback);
}

std::string wrong_host_text(const Headers& headers) {
  return "Host is '" + std::string(headers.get("Host").substr(0, kShown)) +
         "'; without a password this server answers to its address, localhost and names given by "
         "--allowed-host";
}

}  // namespace fulmar
