// Starts the server, dispatches requests and stops it.
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/log.h"
#include "base/work_pool.h"
#include "cache/database_file.h"
#include "cache/document_store.h"
#include "net/host_check.h"
#include "server/core/call.h"
#include "server/families.h"
#include "server/responses/background_jobs.h"
#include "server/responses/family.h"
#include "server/routes.h"

namespace fulmar {
namespace {

// Requests that wait for a thread, in all and of one client: a client that floods the server is refused
// before others are. Their bodies count as held.
constexpr size_t kMostWaiting = 4096, kMostOfShare = 1024;
constexpr size_t kSessionThreads = 2;
// Time for cancelled requests to deliver their last event.
constexpr std::chrono::seconds kLastWords{5};

void answer_preflight(Exchange& exchange) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  add_cors_headers(response.headers, exchange.request(), true);
  exchange.respond(std::move(response));
}

// Returns the family of the route that a request is for; of an unknown one, by its path.
Family family_of(const HttpRequest& request) {
  const RouteMatch match = find_route(request.method, request.path);
  return match.route ? match.route->family : family_of_path(request.path);
}

// Tells whether a header has yet to show the key that the route asks for. Until then the body may be only as
// large as a key in it needs.
bool waits_for_key(const Service& service, const HttpRequest& head) {
  const RouteMatch match = find_route(head.method, head.path);
  const AuthRules rules = service.auth_rules();
  return match.route && needs_key(rules, match.route->access) &&
         !identify(rules, match.route->access, head, JsonValue()).known;
}

// Returns how large a body may be; files may be larger than bodies that are parsed.
BodyRule body_rule(const Service& service, const HttpRequest& head) {
  const ServerLimits& limits = service.options.limits;
  const RouteMatch match = find_route(head.method, head.path);
  const size_t unkeyed = std::min(limits.max_body_bytes, limits.max_unkeyed_body_bytes);
  if (!match.route || waits_for_key(service, head)) return {.most_bytes = unkeyed, .keyed = false};
  return {.most_bytes = match.route->takes_bytes ? std::max(limits.max_body_bytes, limits.max_file_bytes)
                                                 : limits.max_body_bytes};
}

HttpResponse format_net_error(const Service& service, const HttpRequest& request, int status,
                              std::string_view text) {
  ApiError error{status, std::string(text), {}, {}, {}};
  if (status == 413 && waits_for_key(service, request)) {
    error = {
        401,
        fmt::format("Unauthorized: no valid key in the header Authorization or X-Api-Key; without one a body "
                    "may hold at most {} bytes",
                    body_rule(service, request).most_bytes),
        {},
        "invalid_api_key",
        {}};
  }
  HttpResponse response = error_response(family_of(request), error);
  add_cors_headers(response.headers, request, false);
  return response;
}

size_t pool_threads() { return std::clamp<size_t>(std::thread::hardware_concurrency() / 4, 2, 8); }

// Makes the error with which a start ends when stored responses cannot be read.
Error unusable(const Error& error) {
  return {error.kind == ErrorKind::resource ? ErrorKind::io : error.kind,
          error.text +
              "; nothing was changed. Stored responses lie there: mend what stands in the way (room on the "
              "disk, rights, the file itself), move it away, or name another file with --state-db-path"};
}

// Opens the file of stored responses; null means in memory. Fails when the file cannot be opened but may hold
// responses or was named explicitly; otherwise options.responses_in_memory says why there is none.
Result<std::unique_ptr<DocumentStore>> open_documents(ServerOptions& options) {
  if (options.responses_db.empty()) return std::unique_ptr<DocumentStore>();
  const bool holds = may_hold_something(options.responses_db);  // before it is made
  auto documents = open_document_store(
      options.responses_db, {.lifetime = ResponseStore::kSeconds, .durable = options.responses_durable});
  if (documents.ok()) return documents;
  if (options.responses_db_asked_for || holds) return unusable(documents.error());
  options.responses_in_memory =
      documents.error().text + "; stored responses live in memory only and end with this server";
  spdlog::error("{}", options.responses_in_memory);
  return std::unique_ptr<DocumentStore>();
}

// Warns of keys in older files whose patterns used to open administration.
void warn_of_patterns(const std::vector<ApiKey>& keys) {
  for (const ApiKey& key : keys) {
    const auto pattern = std::find_if(key.routes.begin(), key.routes.end(), covers_administration);
    if (pattern == key.routes.end()) continue;
    spdlog::warn(
        "the key '{}' lists {}, which opens no administration (models, shared states, stopping); "
        "`fulmar keys add NAME --admin` makes a key that does",
        key.name, *pattern);
  }
}

std::shared_ptr<KeyRing> key_ring(const std::optional<std::vector<ApiKey>>& keys) {
  if (!keys) return nullptr;
  auto ring = std::make_shared<KeyRing>();
  warn_of_patterns(*keys);
  ring->replace(*keys, std::chrono::steady_clock::now());
  return ring;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, ModelRegistry& models, ModelAdmin* admin,
       std::unique_ptr<DocumentStore> documents)
      : service_(
            new Service{.models = models,
                        .options = options,
                        .admin = admin,
                        .routes = routes(),
                        .families = make_families(models, options.adapters,
                                                  std::make_shared<ResponseFamily>(std::move(documents))),
                        .keys = key_ring(options.api_keys),
                        .post_job =
                            [pool = pool_, sessions = sessions_](ThreadKind kind, ClientJob job) {
                              return (kind == ThreadKind::sessions ? sessions : pool)->post(std::move(job));
                            },
                        .loading = options.loading}) {
    service_->families.responses->store.on_lost(options.on_lost);
  }
  ~Impl() { stop(std::chrono::milliseconds(0)); }

  Status start() {
    const ServerOptions& options = service_->options;
    hosts_ = options.allowed_hosts;
    hosts_.push_back(options.host);
    // Before clients can connect and add responses of their own.
    if (const Status found = find_background_responses(*service_); !found.ok()) {
      return unusable(found.error());
    }
    HttpServerOptions net;
    net.host = options.host;
    net.port = options.port;
    net.threads = options.io_threads;
    net.proxies = {options.trusted_proxies, options.worker_token};
    net.max_body_bytes = options.limits.max_body_bytes;
    net.body_rule = [service = service_](const HttpRequest& head) { return body_rule(*service, head); };
    net.format_error = [service = service_](const HttpRequest& request, int status, std::string_view text) {
      return format_net_error(*service, request, status, text);
    };
    // One client may hold half of it: a whole file.
    net.max_held_body_bytes = 2 * std::max(options.limits.max_file_bytes, options.limits.max_body_bytes);
    auto started =
        HttpServer::start(net, [this](std::shared_ptr<Exchange> exchange) { dispatch(std::move(exchange)); });
    if (!started) return started.error();
    http_ = std::move(*started);
    if (service_->auth_rules().nothing_checked() && !is_loopback_host(options.host)) {
      spdlog::warn("anyone who reaches {} may use this server: neither --password nor --api-keys is set",
                   http_->address());
    }
    if (!service_->loading) loaded();
    return {};
  }

  bool stop(std::chrono::milliseconds grace) {
    std::lock_guard lock(stopping_);
    bool finished = true;
    if (http_ && !stopped_) {
      service_->draining = true;
      http_->close_after_answers();
      if (grace.count() > 0) std::this_thread::sleep_for(service_->options.drain_delay);
      finished = http_->drain(std::chrono::steady_clock::now() + grace);
      service_->ending = true;
      service_->families.responses->background.interrupt_all();
      pool_->stop_work();
      sessions_->stop_work();
      if (!finished) {
        service_->models.each_engine([](Engine& engine) { engine.stop_all(); });
        http_->drain(std::chrono::steady_clock::now() + kLastWords);
      }
      http_->stop();
    }
    stopped_ = true;
    pool_->finish();
    sessions_->finish();
    return finished;
  }

  // Resumes background responses, whose models are loaded now.
  void loaded() {
    // On this thread, so that clients find them as soon as /health reports the model.
    take_up_background_responses(service_);
    service_->loading = false;
    look_for_waiting_responses(service_);  // as rows have ended meanwhile
  }

  Service& service() { return *service_; }
  const HttpServer& http() const { return *http_; }
  std::chrono::milliseconds grace() const { return service_->options.grace; }

 private:
  void dispatch(std::shared_ptr<Exchange> exchange) {
    const HttpRequest& request = exchange->request();
    if (service_->auth_rules().nothing_checked() && !is_meant_for_us(request.headers, hosts_)) {
      return exchange->respond(error_response(
          family_of(request),
          {kWrongHostStatus, wrong_host_text(request.headers), {}, "misdirected_request", {}}));
    }
    RouteMatch match = find_route(request.method, request.path);
    if (request.method == "OPTIONS" && (match.path_known || request.path == "*")) {
      return answer_preflight(*exchange);
    }
    if (!match.route) {
      HttpResponse response = unrouted_response(methods_of(request.path));
      add_cors_headers(response.headers, request, false);
      return exchange->respond(std::move(response));
    }
    Call::dispatch(
        std::make_shared<Call>(service_, *match.route, std::move(exchange), std::move(match.argument)));
  }

  // Calls may outlive the server and still ask for a thread.
  const std::shared_ptr<WorkPool> pool_ =
      std::make_shared<WorkPool>("work", pool_threads(), kMostWaiting, kMostOfShare);
  const std::shared_ptr<WorkPool> sessions_ =
      std::make_shared<WorkPool>("sessions", kSessionThreads, kMostWaiting, kMostOfShare);
  const std::shared_ptr<Service> service_;
  std::vector<std::string> hosts_;  // names that mean this server
  std::unique_ptr<HttpServer> http_;
  std::mutex stopping_;
  bool stopped_ = false;
};

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, ModelRegistry& models,
                                              ModelAdmin* admin) {
  ServerOptions told = options;
  FULMAR_ASSIGN(auto documents, open_documents(told));
  auto impl = std::make_unique<Impl>(told, models, admin, std::move(documents));
  FULMAR_TRY(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

uint16_t Server::port() const { return impl_->http().port(); }
std::string Server::address() const { return impl_->http().address(); }
void Server::loaded() { impl_->loaded(); }
void Server::replace_keys(std::vector<ApiKey> keys) {
  warn_of_patterns(keys);
  impl_->service().keys->replace(std::move(keys), std::chrono::steady_clock::now());
}
AdapterRegistry& Server::adapters() { return *impl_->service().families.adapters; }
bool Server::stop() { return impl_->stop(impl_->grace()); }
bool Server::stop(std::chrono::milliseconds grace) { return impl_->stop(grace); }
std::shared_ptr<const void> Server::keep_storing(std::chrono::steady_clock::time_point give_up) {
  const std::shared_ptr<ResponseStore> store = impl_->service().families.responses->held_store;
  store->try_until(give_up);
  return store;
}

}  // namespace fulmar
