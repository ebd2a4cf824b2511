// Checks passwords and keys against what a route asks for.
#include "server/core/auth.h"

#include "net/secret.h"

namespace fulmar {
namespace {

constexpr std::string_view kBearer = "bearer ";

std::string_view bearer_token(const Headers& headers) {
  const std::string_view header = headers.get("Authorization");
  if (header.size() < kBearer.size() || !equals_ignoring_case(header.substr(0, kBearer.size()), kBearer)) {
    return {};
  }
  return header.substr(kBearer.size());
}

}  // namespace

Caller identify(const AuthRules& rules, Access access, const HttpRequest& request, const JsonValue& body) {
  if (rules.nothing_checked()) return {.known = true, .account = nullptr};
  const JsonValue* field = body.find("password");
  const std::string* key = access == Access::key_or_query ? request.query.find("key") : nullptr;
  const std::string_view offers[] = {
      bearer_token(request.headers), request.headers.get("X-Api-Key"),
      field && field->is_string() ? std::string_view(field->as_string()) : std::string_view(),
      key ? std::string_view(*key) : std::string_view()};
  for (const std::string_view offer : offers) {
    if (same_secret(rules.password, offer)) return {.known = true, .account = nullptr};
    auto account = rules.keys ? rules.keys->find(offer) : nullptr;
    if (account) return {.known = true, .account = std::move(account)};
  }
  return {};
}

bool needs_key(const AuthRules& rules, Access access) {
  switch (access) {
    case Access::open:
      return false;
    case Access::status:
    case Access::listing:
      return rules.auth_all;
    case Access::key_or_query:
      return !rules.open_translate;
    case Access::key:
    case Access::kept:
    case Access::listed:
    case Access::admin:
      return true;
  }
  return true;
}

}  // namespace fulmar
