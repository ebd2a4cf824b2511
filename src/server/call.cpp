// Reading, checking and answering one request.
#include "server/call.h"

#include <fmt/format.h>

#include <exception>
#include <new>

#include "base/log.h"
#include "net/cross_site.h"
#include "net/gzip.h"
#include "net/json.h"

namespace fulmar {
namespace {

constexpr std::string_view kAllowedHeaders = "Content-Type, Authorization";
constexpr std::string_view kUnauthorized = "Unauthorized: invalid or missing password";

Outcome outcome_of(int status) {
  if (status < 400) return Outcome::ok;
  return status < 500 ? Outcome::client_error : Outcome::server_error;
}

// Of the answer to whoever has not shown the key.
std::string unauthorized_text(Access access) {
  std::string text(kUnauthorized);
  if (access == Access::key_or_query) {
    text += "; this route also takes it as ?key= in the URL, or is opened to all by --open-translate";
  }
  return text;
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
  Call& self = *call;
  const std::shared_ptr<Call> kept = call;
  self.guard([&] { self.serve(std::move(call)); });
  if (!self.postponed_) self.body_ = JsonValue(JsonObject{});
}

std::function<void()> Call::postpone(const std::shared_ptr<Call>& call, std::function<void()> later) {
  call->postponed_ = true;
  const auto body = std::make_shared<JsonValue>(std::move(call->body_));
  return [call, body, later = std::move(later)] {
    call->body_ = std::move(*body);
    call->guard(later);
    call->body_ = JsonValue(JsonObject{});
  };
}

bool Call::may_administer() const {
  if (service_->auth_rules().nothing_checked()) return !is_cross_site(request().headers);
  return caller_.known && (!caller_.account || caller_.account->opens("/loadmodel", true));
}

void Call::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    fail({503, "Out of memory; try again, or send less", {}, "out_of_memory", {}});
  } catch (const std::exception& failure) {
    spdlog::error("request failed route={} reason=\"{}\"", route_.path, failure.what());
    fail({500, "Internal error", {}, "internal_error", {}});
  }
}

void Call::serve(std::shared_ptr<Call> self) {
  Result<JsonValue> body = read_body();
  if (body) {
    body_ = std::move(*body);
    if (route_.family_of_body) family_ = route_.family_of_body(body_);
  } else {
    if (route_.family_of_body) family_ = family_of_path(request().path);
  }
  caller_ = identify(service_->auth_rules(), route_.access, request(), body_);
  owner_ = owner_of(caller_, request().headers.get(kOwnerHeader));
  if (const auto refused = refuse_caller()) return fail(*refused);
  if (!body && body.error().kind == ErrorKind::resource) {
    return fail({413, body.error().text, {}, "too_large", {}});
  }
  if (!body) return fail(bad_value(body.error().text, {}, "invalid_json"));
  if (!may_hold_schema(body_)) return route_.handle(std::move(self));
  auto job = postpone(self, [self] { self->route_.handle(self); });
  if (!service_->post_schema_job(std::move(job))) {
    fail({503, "Request queue full", {}, "queue_full", {}});
  }
}

Result<JsonValue> Call::read_body() {
  const ServerLimits& limits = service_->options.limits;
  const JsonValue nothing(JsonObject{});
  if (route_.method == "GET") return nothing;
  std::string text = exchange_->take_body();
  if (is_compressed(request().headers)) {
    // What comes out counts as what is sent does: little until a key was seen.
    const AuthRules rules = service_->auth_rules();
    const bool keyed =
        !needs_key(rules, route_.access) || identify(rules, route_.access, request(), JsonValue()).known;
    const size_t most = route_.takes_bytes ? limits.max_file_bytes : limits.max_body_bytes;
    FULMAR_ASSIGN(text, gunzip(text, keyed ? most : limits.max_unkeyed_body_bytes));
  }
  if (route_.takes_bytes) bytes_ = std::move(text);
  if (route_.takes_bytes || text.empty()) return nothing;
  FULMAR_ASSIGN(JsonValue body, parse_json(text, JsonLimits{.max_bytes = limits.max_body_bytes}));
  if (body.is_object()) return body;
  return Error{ErrorKind::invalid, "Invalid JSON: found " + describe(body) + ", wanted an object"};
}

std::optional<ApiError> Call::refuse_caller() const {
  const AuthRules rules = service_->auth_rules();
  const bool administers = route_.access == Access::admin;
  // Where no key is asked for, a page of any site could have its visitors' browsers do this.
  if (administers && rules.nothing_checked() && is_cross_site(request().headers)) {
    return ApiError{
        403, "Refused: sent by a page of another site, and no password is set", {}, "cross_site", {}};
  }
  const std::string_view as = request().headers.get(kOwnerHeader);
  if (!as.empty() && !is_key_name(as)) {
    return bad_value(fmt::format("{} is {}; wanted the name of a key", kOwnerHeader,
                                 describe(JsonValue(std::string(as)))));
  }
  if (!as.empty() && caller_.known && !may_act_as(caller_, as)) {
    return ApiError{403,
                    fmt::format("Only an administrator acts as another owner; {} is '{}'", kOwnerHeader, as),
                    {},
                    "not_an_administrator",
                    {}};
  }
  if (!needs_key(rules, route_.access)) return std::nullopt;
  if (!caller_.known) return ApiError{401, unauthorized_text(route_.access), {}, "invalid_api_key", {}};
  if (!caller_.account) return std::nullopt;
  return caller_.account->admit_request(request().path, administers, arrived_);
}

std::optional<ApiError> Call::take_rows(int64_t rows, int64_t prompt_tokens) {
  if (!caller_.account) return std::nullopt;
  auto refused = caller_.account->admit_rows(rows, prompt_tokens, std::chrono::steady_clock::now());
  if (!refused) rows_ = RowLease(caller_.account, rows);
  return refused;
}

std::optional<ApiError> Call::share_key(size_t prompt_tokens, KeyShare& share) {
  auto refused = take_rows(1, static_cast<int64_t>(prompt_tokens));
  if (refused) return refused;
  share.account = caller_.account;
  share.rows = std::move(rows_);
  return std::nullopt;
}

void Call::charge_generated(int64_t tokens) {
  if (caller_.account) caller_.account->charge_generated(tokens, std::chrono::steady_clock::now());
}

bool is_compressed(const Headers& headers) {
  const std::string_view coding = headers.get("Content-Encoding");
  return equals_ignoring_case(coding, "gzip") || equals_ignoring_case(coding, "x-gzip");
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
