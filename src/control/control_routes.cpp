// Routes of the dashboard, of the workers' administration, and of generation through the router.
#include "control/control_routes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/version.h"
#include "control/control_answers.h"
#include "control/control_auth.h"
#include "control/pass_on.h"
#include "net/cross_site.h"
#include "net/host_check.h"
#include "net/json.h"
#include "net/page_files.h"
#include "net/secret.h"

namespace fulmar {
namespace {

using ExchangePtr = std::shared_ptr<Exchange>;

// Bodies beyond this are parsed on a thread of their own.
constexpr size_t kHeavyBody = size_t{128} << 10;
constexpr size_t kMostBody = size_t{64} << 20;
constexpr size_t kMostUnkeyedBody = size_t{1} << 20;

struct Asked {
  ControlService& service;
  ExchangePtr exchange;
  std::string_view argument;  // what '*' stands for in the route's path
  JsonValue body = {};        // of routes that take a key in it; null where it is no JSON

  const HttpRequest& request() const { return exchange->request(); }
  void answer(HttpResponse response) const {
    add_cors(response.headers);
    exchange->respond(std::move(response));
  }
  FleetPtr fleet() const { return service.supervisor.fleet(); }
};

enum class RouteAccess { open, key, key_in_body };

constexpr bool may_change_state(std::string_view method) {
  return method != "GET" && method != "HEAD" && method != "OPTIONS";
}

struct ControlRoute {
  std::string_view method;  // empty: any
  std::string_view path;    // one '*' stands for anything but nothing
  RouteAccess access;
  void (*handle)(const Asked&);
  std::string_view field = {};  // the only one that a body may have; "*": the handler judges all
};

// ---- pages and figures

void answer_file(const Asked& asked, std::string_view name) {
  const PageFile* file = find_page_file(name);
  asked.answer(file ? answer_page_file(asked.request(), *file) : no_route_answer(404));
}

void dashboard(const Asked& asked) { answer_file(asked, "dashboard.html"); }
void page_asset(const Asked& asked) { answer_file(asked, asked.argument); }

int64_t count_ready(const Fleet& fleet) {
  return std::count_if(fleet.begin(), fleet.end(),
                       [](const WorkerPtr& worker) { return worker->phase == WorkerPhase::ready; });
}

void health(const Asked& asked) {
  if (asked.service.draining) return asked.answer(detail_answer(503, "the control plane is stopping"));
  const FleetPtr fleet = asked.fleet();
  JsonWriter json;
  json.begin_object()
      .member("status", "ok")
      .member("workers", fleet->size())
      .member("ready", count_ready(*fleet))
      .end_object();
  asked.answer(json_answer(json.take()));
}

void readiness(const Asked& asked) {
  const bool ready = !asked.service.draining && count_ready(*asked.fleet()) > 0;
  asked.answer(ready ? json_answer(R"({"status":"ok"})") : detail_answer(503, "no worker is ready"));
}

void system_figures(const Asked& asked) {
  asked.answer(json_answer(system_json(program_version(), asked.service.gpus.figures())));
}

// Parses `since`, seconds since 1970; 0 where the query has none. Where it is no number, answers the request
// and returns nothing.
std::optional<double> read_since(const Asked& asked) {
  const std::string* text = asked.request().query.find("since");
  if (text == nullptr) return 0.0;
  const auto number = lenient_number(JsonValue(*text));
  if (!number) asked.answer(detail_answer(422, "since: is '" + *text + "', wanted a finite number"));
  return number;
}

void history(const Asked& asked) {
  const std::string* step = asked.request().query.find("step");
  if (step != nullptr && *step != "minute") {
    return asked.answer(detail_answer(422, "step: is '" + *step + "', wanted minute"));
  }
  const auto since = read_since(asked);
  if (since) asked.answer(json_answer(asked.service.supervisor.history().json(*since, step != nullptr)));
}

void events(const Asked& asked) {
  const auto since = read_since(asked);
  if (since) asked.answer(json_answer(asked.service.supervisor.events().json(*since)));
}

void model_files(const Asked& asked) {
  const std::string& folder = asked.service.models_dir;
  asked.answer(json_answer(model_files_json(!folder.empty(), list_model_files(folder))));
}

void metrics(const Asked& asked) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = fleet_metrics(*asked.fleet());
  asked.answer(std::move(response));
}

void list_models(const Asked& asked) { asked.answer(json_answer(models_json(*asked.fleet()))); }

void list_model_names(const Asked& asked) { asked.answer(json_answer(model_names_json(*asked.fleet()))); }

void show_model(const Asked& asked) {
  std::string model = model_json(*asked.fleet(), asked.argument);
  asked.answer(model.empty() ? no_route_answer(404) : json_answer(std::move(model)));
}

// ---- workers

// Returns the worker that the path names; answers with 404 and returns null where there is none.
WorkerPtr named_worker(const Asked& asked) {
  WorkerPtr worker = find_worker(*asked.fleet(), asked.argument);
  if (!worker) asked.answer(detail_answer(404, "worker not found"));
  return worker;
}

void list_workers(const Asked& asked) { asked.answer(json_answer(workers_json(*asked.fleet()))); }

void show_worker(const Asked& asked) {
  if (const WorkerPtr worker = named_worker(asked)) asked.answer(json_answer(worker_json(*worker)));
}

HttpResponse start_failure(const Error& error) {
  if (error.kind == ErrorKind::conflict) {
    const std::string field = error.text.substr(0, error.text.find(':'));  // "port: ...", "name: ..."
    return json_answer(problems_json({{field, error.text, "value_error"}}), 422);
  }
  if (error.kind == ErrorKind::invalid) {
    return json_answer(problems_json({{"host", error.text, "value_error"}}), 422);
  }
  return detail_answer(error.kind == ErrorKind::unavailable ? 503 : 500, error.text);
}

// Returns what a request to start a worker is judged by.
WorkerSurroundings surroundings_of(ControlService& service) {
  return {.models_dir = service.models_dir,
          .shared_store = service.shared_store,
          .gpus = service.told_gpus ? service.told_gpus() : service.gpus.numbers()};
}

void start_worker(const Asked& asked) {
  const auto body = parse_json(asked.request().body);
  if (!body.ok()) return asked.answer(detail_answer(400, body.error().text));
  ParsedSpec parsed = parse_worker_spec(*body, surroundings_of(asked.service));
  if (!parsed.problems.empty()) return asked.answer(json_answer(problems_json(parsed.problems), 422));
  asked.service.supervisor.start(std::move(parsed.spec), [asked](Result<WorkerPtr> started) {
    asked.answer(started.ok() ? json_answer(worker_json(**started)) : start_failure(started.error()));
  });
}

void stop_worker(const Asked& asked) {
  if (!named_worker(asked)) return;
  const Status found = asked.service.supervisor.stop(
      asked.argument, [asked] { asked.answer(json_answer(R"({"status":"ok"})")); });
  if (!found.ok()) asked.answer(detail_answer(404, found.error().text));
}

// Parses {"deadline":S} in seconds, by default 60. Where it is wrong, answers the request and returns
// nothing.
std::optional<std::chrono::milliseconds> read_deadline(const Asked& asked) {
  constexpr double kMostSeconds = 86'400;
  const std::string& text = asked.request().body;
  const auto body = text.empty() ? Result<JsonValue>(JsonValue()) : parse_json(text);
  if (!body.ok()) {
    asked.answer(detail_answer(400, body.error().text));
    return std::nullopt;
  }
  const auto seconds = get_number(*body, "deadline", 0, kMostSeconds);
  if (!seconds.ok()) {
    asked.answer(json_answer(problems_json({{"deadline", seconds.error().text, "value_error"}}), 422));
    return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<int64_t>(seconds->value_or(60) * 1000));
}

void drain_worker(const Asked& asked) {
  if (!named_worker(asked)) return;
  const auto most = read_deadline(asked);
  if (!most) return;
  const Status found = asked.service.supervisor.drain(asked.argument, *most);
  asked.answer(found.ok() ? json_answer(R"({"status":"draining"})") : detail_answer(404, found.error().text));
}

HttpResponse done_answer(const Status& done, std::string_view status) {
  if (done.ok()) return json_answer("{\"status\":" + json_quoted(status) + "}");
  const ErrorKind kind = done.error().kind;
  const int code = kind == ErrorKind::not_found ? 404 : kind == ErrorKind::conflict ? 409 : 503;
  return detail_answer(code, done.error().text);
}

void restart_worker(const Asked& asked) {
  if (!named_worker(asked)) return;
  const auto most = read_deadline(asked);
  if (!most) return;
  asked.service.supervisor.restart(std::string(asked.argument), *most, [asked](const Status& done) {
    asked.answer(done_answer(done, "restarting"));
  });
}

void restart_workers(const Asked& asked) {
  const auto most = read_deadline(asked);
  if (!most) return;
  asked.service.supervisor.restart_all(*most);
  asked.answer(json_answer(R"({"status":"restarting"})"));
}

void remove_worker(const Asked& asked) {
  if (!named_worker(asked)) return;
  asked.service.supervisor.remove(std::string(asked.argument), [asked](const Status& done) {
    asked.answer(done_answer(done, "removed"));
  });
}

void worker_logs(const Asked& asked) {
  const WorkerPtr worker = named_worker(asked);
  if (!worker) return;
  int64_t tail = 200;
  if (const std::string* text = asked.request().query.find("tail")) {
    const auto number = lenient_int(JsonValue(*text));
    if (!number) {
      return asked.answer(detail_answer(422, "tail: is '" + *text + "', wanted a whole number"));
    }
    tail = *number;
  }
  asked.answer(json_answer(logs_json(worker->id, worker->log->tail(tail))));
}

// ---- relaying

// Returns the part of the request's raw target after `prefix`, as the worker's target.
std::optional<std::string> rest_of_target(std::string_view target, const std::string& prefix) {
  if (!target.starts_with(prefix)) return std::nullopt;
  std::string rest(target.substr(prefix.size()));
  if (rest.empty() || rest.front() != '/') rest.insert(rest.begin(), '/');
  return rest;
}

void proxy(const Asked& asked) {
  const std::string id(asked.argument.substr(0, asked.argument.find('/')));
  const WorkerPtr worker = find_worker(*asked.fleet(), id);
  if (!worker) return asked.answer(detail_answer(404, "worker not found"));
  if (worker->phase == WorkerPhase::starting) return asked.answer(detail_answer(503, "proxy not ready"));
  if (!worker->alive()) return asked.answer(detail_answer(502, "worker unreachable"));
  const auto target = rest_of_target(asked.request().target, "/api/workers/" + id + "/proxy");
  if (!target) return asked.answer(no_route_answer(404));
  pass_to(asked.service, asked.exchange, worker, *target);
}

template <Placement placement>
void pass(const Asked& asked) {
  pass_on(asked.service, asked.exchange, asked.body, placement);
}

// ---- the table

// Exact paths come before patterns that would fit, too.
constexpr ControlRoute kRoutes[] = {
    {"GET", "/", RouteAccess::key, dashboard},
    {"GET", "/assets/*", RouteAccess::key, page_asset},
    {"GET", "/health", RouteAccess::open, health},
    {"GET", "/healthz", RouteAccess::open, health},
    {"GET", "/ready", RouteAccess::open, readiness},
    {"GET", "/metrics", RouteAccess::open, metrics},
    {"GET", "/api/system", RouteAccess::key, system_figures},
    {"GET", "/api/history", RouteAccess::key, history},
    {"GET", "/api/events", RouteAccess::key, events},
    {"GET", "/api/models", RouteAccess::key, model_files},
    {"GET", "/api/workers", RouteAccess::key, list_workers},
    {"POST", "/api/workers/start", RouteAccess::key, start_worker, "*"},
    {"POST", "/api/workers/*/stop", RouteAccess::key, stop_worker},
    {"POST", "/api/workers/restart", RouteAccess::key, restart_workers, "deadline"},
    {"POST", "/api/workers/*/drain", RouteAccess::key, drain_worker, "deadline"},
    {"POST", "/api/workers/*/restart", RouteAccess::key, restart_worker, "deadline"},
    {"GET", "/api/workers/*/logs", RouteAccess::key, worker_logs},
    {"", "/api/workers/*/proxy", RouteAccess::key, proxy},
    {"GET", "/api/workers/*", RouteAccess::key, show_worker},
    {"DELETE", "/api/workers/*", RouteAccess::key, remove_worker},
    {"GET", "/v1/models", RouteAccess::open, list_models},
    {"GET", "/v1/models/*", RouteAccess::open, show_model},
    {"GET", "/openai/v1/models", RouteAccess::key, list_models},
    {"GET", "/openai/v1/models/*", RouteAccess::key, show_model},
    {"GET", "/models", RouteAccess::open, list_model_names},
    {"GET", "/healthcheck", RouteAccess::open, health},
};

// What a worker's routes become, by their placement.
constexpr ControlRoute kPassed[] = {
    {"", "", RouteAccess::key_in_body, pass<Placement::turn>},
    {"", "", RouteAccess::key_in_body, pass<Placement::lookup>},
    {"", "", RouteAccess::key, pass<Placement::merged>},
    {"", "", RouteAccess::key, pass<Placement::apart>},
};

// Returns the text that '*' matches where `path` matches `pattern`. A '*' in the middle matches one segment,
// one at the end all the rest.
std::optional<std::string_view> fits(std::string_view pattern, std::string_view path) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == path ? std::optional(std::string_view()) : std::nullopt;
  if (!path.starts_with(pattern.substr(0, star))) return std::nullopt;
  const std::string_view rest = path.substr(star);
  const std::string_view after = pattern.substr(star + 1);
  if (rest.empty()) return std::nullopt;
  if (after.empty()) return rest;
  const size_t end = rest.find('/');
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  if (rest.substr(end) == after) return rest.substr(0, end);
  const bool below_proxy = after == "/proxy" && rest.substr(end).starts_with("/proxy/");
  return below_proxy ? std::optional(rest.substr(0, end)) : std::nullopt;
}

// Returns the methods that a path supports: "GET, POST".
std::string methods_of(std::string_view path) {
  std::string methods;
  for (const ControlRoute& route : kRoutes) {
    if (!fits(route.path, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method;
  }
  const std::string passed = worker_methods_of(path);
  return methods.empty() || passed.empty() ? methods + passed : methods + ", " + passed;
}

struct Match {
  const ControlRoute* route = nullptr;
  std::string_view argument;
  bool path_known = false;
};

Match find_own_route(std::string_view method, std::string_view path) {
  Match match;
  for (const ControlRoute& route : kRoutes) {
    const auto argument = fits(route.path, path);
    if (!argument) continue;
    match.path_known = true;
    if (!route.method.empty() && route.method != method) continue;
    match.route = &route;
    match.argument = *argument;
    break;
  }
  return match;
}

Match find_route(const HttpRequest& request) {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  Match match = find_own_route(method, request.path);
  if (match.route) return match;
  if (const WorkerRoute* passed = find_worker_route(method, request.path)) {
    match.route = &kPassed[static_cast<size_t>(passed->placement)];
  }
  match.path_known = match.path_known || !worker_methods_of(request.path).empty();
  return match;
}

// Parses the body; null where it is no JSON, since a worker reports that error.
JsonValue body_or_null(const HttpRequest& request) {
  auto body = parse_json(request.body, {.max_bytes = kMostBody});
  return body.ok() ? std::move(*body) : JsonValue();
}

// Returns whether the request shows the key in a header or, on routes that allow it, in the query.
bool shows_key(const ControlService& service, RouteAccess access, const HttpRequest& request) {
  const bool forged = may_change_state(request.method) && is_cross_site(request.headers);
  if (access == RouteAccess::open || has_control_key(service.password, request.headers, !forged)) return true;
  const std::string* key = access == RouteAccess::key_in_body ? request.query.find("key") : nullptr;
  return key && same_secret(service.password, *key);
}

bool shows_key_in(const JsonValue& body, const ControlService& service) {
  const JsonValue* field = body.find("password");
  return field != nullptr && field->is_string() && same_secret(service.password, field->as_string());
}

// Returns the answer to a request that starts, ends or changes a worker and says what its route does not
// read: something else would be done than was asked for. Nothing: all is read.
std::optional<HttpResponse> refuse_unread(const ControlRoute& route, const HttpRequest& request) {
  const bool own = route.access == RouteAccess::key && !route.method.empty() && route.method != "GET";
  if (!own) return std::nullopt;
  const auto problem = [&](const std::string& name, std::string_view place) {
    return json_answer(problems_json({{name,
                                       name + ": is no " + std::string(place) + " of this route; wanted " +
                                           (route.field.empty() ? "none" : std::string(route.field)),
                                       "extra_forbidden"}}),
                       422);
  };
  if (!request.query.empty()) return problem(request.query.begin()->first, "parameter in the URL");
  if (request.body.empty() || route.field == "*") return std::nullopt;
  const auto body = parse_json(request.body);
  if (!body.ok()) return detail_answer(400, body.error().text);
  if (!body->is_object()) return detail_answer(400, "the body is " + describe(*body) + ", wanted an object");
  for (const auto& [name, value] : body->as_object().members()) {
    if (name != route.field) return problem(name, "field");
  }
  return std::nullopt;
}

void handle(const ControlRoute& route, Asked asked) {
  const bool shown = shows_key(asked.service, route.access, asked.request());
  if (!shown && route.access != RouteAccess::key_in_body) return asked.answer(unauthorized_answer());
  if (route.access == RouteAccess::key_in_body) {
    asked.body = body_or_null(asked.request());
    if (!shown && !shows_key_in(asked.body, asked.service)) return asked.answer(unauthorized_answer());
  }
  // With a password a page of another site has nothing but the browser's own credentials, which did not
  // count. Without one it could start and stop workers.
  if (route.access == RouteAccess::key && may_change_state(asked.request().method) &&
      is_cross_site(asked.request().headers)) {
    return asked.answer(detail_answer(403, "refused: sent by a page of another site"));
  }
  if (auto refused = refuse_unread(route, asked.request())) return asked.answer(std::move(*refused));
  route.handle(asked);
}

HttpResponse preflight(const HttpRequest& request) {
  HttpResponse response{.status = 204, .content_type = ""};
  add_cors(response.headers);
  response.headers.set("Access-Control-Max-Age", "86400");
  if (const std::string* names = request.headers.find("Access-Control-Request-Headers")) {
    response.headers.set("Access-Control-Allow-Headers", *names);
  }
  return response;
}

}  // namespace

bool answers_itself(std::string_view method, std::string_view path) {
  return find_own_route(method, path).route != nullptr;
}

BodyRule control_body_rule(const ControlService& service, const HttpRequest& head) {
  const Match match = find_route(head);
  const bool keyed = match.route && shows_key(service, match.route->access, head);
  return {.most_bytes = keyed ? kMostBody : kMostUnkeyedBody, .keyed = keyed};
}

void handle_control_request(ControlService& service, std::shared_ptr<Exchange> exchange) {
  const HttpRequest& request = exchange->request();
  const Match match = find_route(request);
  Asked asked{service, exchange, match.argument};
  if (service.password.empty() && !is_meant_for_us(request.headers, service.hosts)) {
    return asked.answer(detail_answer(kWrongHostStatus, wrong_host_text(request.headers)));
  }
  if (request.method == "OPTIONS" && match.path_known) return exchange->respond(preflight(request));
  if (match.route == nullptr) {
    HttpResponse response = no_route_answer(match.path_known ? 405 : 404);
    if (match.path_known) response.headers.set("Allow", methods_of(request.path));
    return asked.answer(std::move(response));
  }
  if (request.body.size() <= kHeavyBody) return handle(*match.route, std::move(asked));
  if (!service.parsing.post([route = match.route, asked] { handle(*route, asked); })) {
    asked.answer(with_cors(routing_error(503, "queue_full", "too many large requests are waiting")));
  }
}

}  // namespace fulmar
