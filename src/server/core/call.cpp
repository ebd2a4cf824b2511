// Reading, checking and answering one request.
#include "server/core/call.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "net/cross_site.h"
#include "net/gzip.h"
#include "net/json.h"
#include "net/secret.h"
#include "net/worker_proof.h"
#include "server/core/fields.h"
#include "server/core/warnings.h"

namespace fulmar {
namespace {

constexpr std::string_view kAllowedHeaders = "Content-Type, Authorization";
constexpr std::string_view kUnauthorized = "Unauthorized: invalid or missing password";

Outcome outcome_of(int status) {
  if (status < 400) return Outcome::ok;
  return status < 500 ? Outcome::client_error : Outcome::server_error;
}

Grant grant_of(Access access) {
  if (access == Access::admin) return Grant::by_name;
  return access == Access::listed ? Grant::listed : Grant::unsaid;
}

// Returns the text of a 401, with the other places where this route accepts the key.
std::string unauthorized_text(Access access) {
  std::string text(kUnauthorized);
  if (access == Access::key_or_query) {
    text += "; this route also takes it as ?key= in the URL, or is opened to all by --open translate";
  }
  return text;
}

// Returns the name under which the queues count this call, from its headers alone. Callers with the password
// have a share of their own, so that strangers at the same address do not delay them.
std::string share_of(const Service& service, const Route& route, const Exchange& exchange) {
  const AuthRules rules = service.auth_rules();
  const Caller caller = identify(rules, route.access, exchange.request(), JsonValue());
  if (caller.known && !caller.account && !rules.nothing_checked()) return "password";
  return fulmar::share_of(caller, exchange.client());
}

// Tells whether a call may be about a tuned state: it lists them, or names one by its id or behind the name
// of a model.
bool names_state(const Call& call) {
  const HttpRequest& request = call.request();
  if (call.route().path == "/v1/state/list" || !request.headers.get("X-RWKV-State-Id").empty()) return true;
  for (const std::string_view object : {"options", "params"}) {
    const JsonValue* inner = call.body().find(object);
    if (inner && holds_something(inner->find("state_id"))) return true;
  }
  const JsonValue* model = call.body().find("model");
  const bool has_suffix = model && model->is_string() && model->as_string().find(' ') != std::string::npos;
  return has_suffix || holds_something(call.body().find("state_id"));
}

// Tells whether the control plane of this worker looks for one of the caller's sessions itself, to send a
// turn there.
bool is_search(const Call& call) {
  const std::string* proof = call.request().headers.find(kSearchHeader);
  const std::string& token = call.service().options.worker_token;
  return proof != nullptr && !token.empty() && call.route().method == "GET" &&
         call.route().path.starts_with("/v1/sessions") &&
         same_secret(search_proof(token, call.request().target), *proof);
}

}  // namespace

Call::Call(std::shared_ptr<Service> service, const Route& route, std::shared_ptr<Exchange> exchange,
           std::string argument)
    : service_(std::move(service)),
      route_(route),
      exchange_(std::move(exchange)),
      argument_(std::move(argument)),
      family_(route.family),
      meter_(std::make_shared<Meter>(service_->options.limits.max_request_work)),
      share_(share_of(*service_, route_, *exchange_)),
      weight_(weight_of(request())) {
  exchange_->on_disconnect([meter = meter_] { meter->stop(); });
  service_->metrics.begin_holding();
}

void Call::dispatch(std::shared_ptr<Call> call) {
  const bool reads = call->request().method == "GET" || call->request().method == "HEAD";
  const ThreadKind kind = !reads               ? ThreadKind::pool
                          : call->route_.waits ? ThreadKind::sessions
                                               : ThreadKind::io;
  const auto serve = [call] { call->serve(call); };
  if (kind != ThreadKind::io) return post(call, kind, serve);
  const Meter::Scope scope(*call->meter_);
  work_on(call, kind, serve);
}

std::shared_ptr<JsonValue> Call::keep_body() {
  count_steps();
  ++handed_over_;
  return std::make_shared<JsonValue>(std::exchange(body_, JsonValue(JsonObject{})));
}

void Call::resume(std::shared_ptr<Call> call, std::shared_ptr<JsonValue> body, std::function<void()> work,
                  ThreadKind kind) {
  post(call, kind, [call, body, work = std::move(work)] {
    call->body_ = std::move(*body);
    work();
  });
}

void Call::post(const std::shared_ptr<Call>& call, ThreadKind kind, std::function<void()> work) {
  auto job = [call, kind, work = std::move(work)] { work_on(call, kind, work); };
  if (!call->service_->post_job(kind, {call->share_, call->weight_, call->meter_, std::move(job)})) {
    call->fail({503, "Request queue full", {}, "queue_full", {}});
  }
}

void Call::work_on(const std::shared_ptr<Call>& call, ThreadKind kind, const std::function<void()>& work) {
  Call& self = *call;
  const uint32_t before = self.handed_over_;
  self.thread_ = kind;
  self.guard(work);
  if (self.handed_over_ != before) return;
  self.count_steps();
  self.body_ = JsonValue(JsonObject{});
}

void Call::count_steps() {
  const uint64_t used = meter_->used();
  service_->metrics.observe_work(thread_, used - std::exchange(steps_before_, used));
}

bool Call::may_administer() const {
  if (service_->auth_rules().nothing_checked()) return !is_cross_site(request().headers);
  return caller_.known && (!caller_.account || caller_.account->opens("/loadmodel", Grant::by_name));
}

std::vector<KeyAccountPtr> Call::keys_seen() const {
  if (!service_->keys || !caller_.known) return {};
  const bool all = !caller_.account || caller_.account->opens("/metrics", Grant::by_name);
  return all ? service_->keys->all() : std::vector{caller_.account};
}

void Call::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const WorkEnded& ended) {
    Meter of_answer;  // writing it costs nothing of what has run out
    const Meter::Scope scope(of_answer);
    if (exchange_->disconnected()) return count(Outcome::disconnected);
    if (ended.limit == 0) return fail({503, "Server is shutting down", {}, "shutting_down", {}});
    const std::string text = fmt::format(
        "The request takes more than {} steps to read; at most that many are allowed", ended.limit);
    fail(bad_value(text, {}, "too_much_work"));
  } catch (const std::bad_alloc&) {
    fail({503, "Out of memory; try again, or send less", {}, "out_of_memory", {}});
  } catch (const std::exception& failure) {
    spdlog::error("request failed route={} reason=\"{}\"", route_.path, failure.what());
    fail({500, "Internal error", {}, "internal_error", {}});
  }
}

void Call::serve(std::shared_ptr<Call> self) {
  meter_->count(request().body.size());
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
  unkept_ = service_->families.unkept(route_, request(), body_);
  if (unkept_.fault && unkept_.at_once) return fail(*unkept_.fault);
  const auto handle = [self] {
    if (!self->route_.waits || self->thread_ == ThreadKind::sessions) return self->route_.handle(self);
    resume(
        self, self->keep_body(), [self] { self->route_.handle(self); }, ThreadKind::sessions);
  };
  ModelAdmin* const admin = service_->admin;
  if (!names_state(*this) || !admin || !admin->states_changed(owner_)) return handle();
  const auto read_again = [self, admin, handle, kept = keep_body()] {
    admin->read_states_again();
    resume(self, kept, handle);
  };
  if (!admin->post([self, read_again] { self->guard(read_again); })) {
    fail({503, "Too many loads are waiting", {}, "queue_full", {}});
  }
}

Result<JsonValue> Call::read_body() {
  const ServerLimits& limits = service_->options.limits;
  const JsonValue nothing(JsonObject{});
  if (route_.method == "GET") return nothing;
  std::string text = exchange_->take_body();
  if (is_compressed(request().headers)) {
    // The bound for bodies holds for the decompressed size, too: small until a key has been seen.
    const AuthRules rules = service_->auth_rules();
    const bool keyed =
        !needs_key(rules, route_.access) || identify(rules, route_.access, request(), JsonValue()).known;
    const size_t most = takes_bytes() ? limits.max_file_bytes : limits.max_body_bytes;
    FULMAR_ASSIGN(text, gunzip(text, keyed ? most : limits.max_unkeyed_body_bytes));
  }
  if (takes_bytes()) {
    bytes_ = std::move(text);
    return nothing;
  }
  if (text.empty()) return nothing;
  FULMAR_ASSIGN(JsonValue body, parse_json(text, JsonLimits{.max_bytes = limits.max_body_bytes}));
  if (body.is_object()) return body;
  return Error{ErrorKind::invalid, "Invalid JSON: found " + describe(body) + ", wanted an object"};
}

// Returns whether the body stays bytes: a route of bytes that declares fields takes them as JSON, too.
bool Call::takes_bytes() const {
  const bool form = request().headers.get("Content-Type").starts_with("multipart/");
  return route_.takes_bytes && (form || !route_.note || route_.note->fields.empty());
}

std::optional<ApiError> Call::other_site_fault() const {
  if (!service_->auth_rules().nothing_checked() || !is_cross_site(request().headers)) return std::nullopt;
  return ApiError{
      403, "Refused: sent by a page of another site, and no password is set", {}, "cross_site", {}};
}

std::optional<ApiError> Call::refuse_caller() const {
  const AuthRules rules = service_->auth_rules();
  const bool guarded =
      route_.access == Access::admin || route_.access == Access::listed || route_.access == Access::kept;
  if (guarded) {
    if (auto fault = other_site_fault()) return fault;
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
  if (!caller_.account || is_search(*this)) return std::nullopt;
  return caller_.account->admit_request(request().path, grant_of(route_.access), arrived_);
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

// Counts the request and looks for waiting work: a call that has ended may leave room in the engine or free a
// model.
void Call::count(Outcome outcome) const {
  service_->metrics.count_request(route_.path, outcome);
  service_->families.call_ended(service_);
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
  const bool holds = status == 200 && route_.method != "GET" && family_ != Family::anthropic;
  if (holds) add_warnings(response.body, unkept_.warnings);
  respond(std::move(response));
}

void Call::fail(const ApiError& error) { respond(error_response(family_, error)); }

void Call::add_common_headers(Headers& headers) const {
  add_cors_headers(headers, request(), false);
  add_warning_headers(headers, unkept_.warnings);
  add_warning_headers(headers, warnings_of_route(service_->options, route_.path));
}

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
  headers.set("Access-Control-Expose-Headers", "X-Request-Id, Fulmar-Warning");
}

}  // namespace fulmar
