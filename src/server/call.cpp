// Reading, checking and answering one request.
#include "server/call.h"

#include "net/json.h"

namespace fulmar {
namespace {

constexpr std::string_view kAllowedHeaders = "Content-Type, Authorization";
constexpr std::string_view kUnauthorized = "Unauthorized: invalid or missing password";

Outcome outcome_of(int status) {
  if (status < 400) return Outcome::ok;
  return status < 500 ? Outcome::client_error : Outcome::server_error;
}

Result<JsonValue> read_body(std::string_view text, size_t max_bytes) {
  if (text.empty()) return JsonValue(JsonObject{});
  FULMAR_ASSIGN(JsonValue body, parse_json(text, JsonLimits{.max_bytes = max_bytes}));
  if (body.is_object()) return body;
  return Error{ErrorKind::invalid, "Invalid JSON: found " + describe(body) + ", wanted an object"};
}

}  // namespace

Call::Call(std::shared_ptr<Service> service, const Route& route, std::shared_ptr<Exchange> exchange,
           std::string argument)
    : service_(std::move(service)),
      route_(route),
      exchange_(std::move(exchange)),
      argument_(std::move(argument)),
      family_(route.family) {}

void Call::run(std::shared_ptr<Call> call) {
  const AuthRules rules = call->service_->auth_rules();
  if (call->route_.takes_bytes) call->bytes_ = call->exchange_->take_body();
  Result<JsonValue> body =
      call->route_.method == "GET" || call->route_.takes_bytes
          ? Result<JsonValue>(JsonValue(JsonObject{}))
          : read_body(call->exchange_->take_body(), call->service_->options.limits.max_body_bytes);
  if (body) {
    call->body_ = std::move(*body);
    if (call->route_.family_of_body) call->family_ = call->route_.family_of_body(call->body_);
  } else {
    call->family_ = family_of_path(call->request().path);
  }
  call->trusted_ = has_key(rules, call->route_.access, call->request(), call->body_);
  if (needs_key(rules, call->route_.access) && !call->trusted_) {
    return call->fail({401, std::string(kUnauthorized), {}, "invalid_api_key", {}});
  }
  if (!body) return call->fail(bad_value(body.error().text, {}, "invalid_json"));
  call->route_.handle(std::move(call));
}

void Call::respond(HttpResponse response) {
  const Outcome outcome = outcome_of(response.status);
  respond(std::move(response), outcome);
}

void Call::respond(HttpResponse response, Outcome outcome) {
  count(outcome);
  add_common_headers(response.headers);
  exchange_->respond(std::move(response));
}

void Call::respond_json(std::string body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  respond(std::move(response));
}

void Call::fail(const ApiError& error) { respond(error_response(family_, error)); }

void Call::add_common_headers(Headers& headers) const { add_cors_headers(headers, request(), false); }

void add_cors_headers(Headers& headers, const HttpRequest& request, bool preflight) {
  headers.set("Access-Control-Allow-Origin", "*");
  headers.set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS");
  std::string allowed(kAllowedHeaders);
  if (preflight) {
    if (const auto asked = request.headers.get("Access-Control-Request-Headers"); !asked.empty()) {
      allowed.append(", ").append(asked);
    }
    headers.set("Access-Control-Max-Age", "86400");
  }
  headers.set("Access-Control-Allow-Headers", allowed);
  headers.set("Access-Control-Expose-Headers", "X-Request-Id");
}

}  // namespace fulmar
