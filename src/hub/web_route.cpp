#include "hub/web_route.h"

#include <fmt/core.h>

namespace fulmar {
namespace {

std::string either(const Environment& environment, const char* lower, const char* upper) {
  std::string value = environment(lower);
  if (value.empty() && upper != nullptr) value = environment(upper);
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Returns whether the host is the domain or below it; "example.org" and ".example.org" mean the same.
bool lies_in(std::string_view host, std::string_view domain) {
  if (domain.starts_with('.')) domain.remove_prefix(1);
  if (domain.empty() || host.size() < domain.size()) return false;
  if (!equals_ignoring_case(host.substr(host.size() - domain.size()), domain)) return false;
  return host.size() == domain.size() || host[host.size() - domain.size() - 1] == '.';
}

bool is_listed(std::string_view list, std::string_view host) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view entry = trimmed(list.substr(0, comma));
    if (entry == "*" || lies_in(host, entry)) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace

Result<Url> follow_location(const Url& from, std::string_view location) {
  location = location.substr(0, location.find('#'));
  const std::string_view head = location.substr(0, location.find_first_of("/?"));
  if (head.ends_with(':')) {  // a scheme
    FULMAR_ASSIGN(const Url url, parse_web_url(location));
    if (from.secure && !url.secure) {
      return Error{ErrorKind::corrupt,
                   fmt::format("{} redirects to {}; wanted https", absolute_form(from), location)};
    }
    return url;
  }
  if (location.starts_with("//"))
    return parse_web_url((from.secure ? "https:" : "http:") + std::string(location));
  Url url = from;
  const std::string path = from.target.substr(0, from.target.find('?'));
  if (location.starts_with('/')) {
    url.target = location;
  } else if (location.starts_with('?')) {
    url.target = path + std::string(location);
  } else if (!location.empty()) {
    url.target = path.substr(0, path.rfind('/') + 1) + std::string(location);
  }
  return url;
}

bool same_origin(const Url& a, const Url& b) {
  return a.secure == b.secure && a.port == b.port && equals_ignoring_case(a.host, b.host);
}

Result<std::optional<Proxy>> proxy_for(const Url& url, const Environment& environment) {
  std::string address = url.secure ? either(environment, "https_proxy", "HTTPS_PROXY")
                                   : either(environment, "http_proxy", nullptr);
  if (address.empty()) address = either(environment, "all_proxy", "ALL_PROXY");
  if (address.empty() || is_listed(either(environment, "no_proxy", "NO_PROXY"), url.host)) {
    return std::optional<Proxy>();
  }
  Proxy proxy;
  const size_t scheme = address.find("://");
  const std::string named = scheme == std::string::npos ? "http" : address.substr(0, scheme);
  std::string rest = scheme == std::string::npos ? address : address.substr(scheme + 3);
  // Neither the whole address nor its first part in the error: a password may stand there.
  const Error wrong{
      ErrorKind::invalid,
      fmt::format("the environment's proxy for {} is '{}://...'; wanted http://HOST:PORT", url.host, named)};
  if (named != "http") return wrong;
  if (const size_t at = rest.rfind('@'); at != std::string::npos) {
    auto credentials = percent_decode(std::string_view(rest).substr(0, at));
    if (!credentials.ok()) return wrong;
    proxy.credentials = std::move(*credentials);
    rest.erase(0, at + 1);
  }
  const auto parsed = parse_url("http://" + rest);
  if (!parsed.ok()) return wrong;
  proxy.host = parsed->host;
  proxy.port = parsed->port;
  return std::optional<Proxy>(std::move(proxy));
}

std::string host_field(const Url& url) {
  const std::string whole = host_and_port(url.host, url.port);
  const bool usual = url.port == (url.secure ? 443 : 80);
  return usual ? whole.substr(0, whole.rfind(':')) : whole;
}

std::string absolute_form(const Url& url) {
  return (url.secure ? "https://" : "http://") + host_field(url) + url.target;
}

}  // namespace fulmar
