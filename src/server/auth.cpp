// The decisions about keys.
#include "server/auth.h"

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

bool has_key(const AuthRules& rules, Access access, const HttpRequest& request, const JsonValue& body) {
  if (rules.password.empty()) return true;
  if (same_secret(rules.password, bearer_token(request.headers))) return true;
  if (same_secret(rules.password, request.headers.get("X-Api-Key"))) return true;
  if (const JsonValue* field = body.find("password");
      field && field->is_string() && same_secret(rules.password, field->as_string())) {
    return true;
  }
  const std::string* key = access == Access::key_or_query ? request.query.find("key") : nullptr;
  return key && same_secret(rules.password, *key);
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
      return true;
  }
  return true;
}

}  // namespace fulmar
