// Start, dispatch and stop.
#include "server/server.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "base/job_thread.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "server/answer_rules.h"
#include "server/call.h"
#include "server/routes.h"

namespace fulmar {
namespace {

// Bodies beyond this are parsed and tokenized on the worker thread, so that they hold up nobody's stream.
constexpr size_t kHeavyBody = size_t{128} << 10;
constexpr size_t kMaxHeavyWaiting = 64;
// How long cancelled requests have to deliver their last event.
constexpr std::chrono::seconds kLastWords{5};

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void answer_preflight(Exchange& exchange) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  add_cors_headers(response.headers, exchange.request(), true);
  exchange.respond(std::move(response));
}

HttpResponse format_net_error(const HttpRequest& request, int status, std::string_view text) {
  HttpResponse response =
      error_response(family_of_path(request.path), {status, std::string(text), {}, {}, {}});
  add_cors_headers(response.headers, request, false);
  return response;
}

// Files may be larger than what is parsed, for callers that have shown the key already.
size_t body_limit(const Service& service, const HttpRequest& head) {
  const ServerLimits& limits = service.options.limits;
  const RouteMatch match = find_route(head.method, head.path);
  if (!match.route || !match.route->takes_bytes) return limits.max_body_bytes;
  const bool trusted = has_key(service.auth_rules(), match.route->access, head, JsonValue());
  return trusted ? std::max(limits.max_body_bytes, limits.max_file_bytes) : limits.max_body_bytes;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, ModelRegistry& models, ModelAdmin* admin)
      : service_(new Service{models, options, admin, {}}) {}
  ~Impl() { stop(std::chrono::milliseconds(0)); }

  Status start() {
    worker_ = std::thread([this] { work(); });
    const ServerOptions& options = service_->options;
    HttpServerOptions net;
    net.host = options.host;
    net.port = options.port;
    net.threads = options.io_threads;
    net.max_body_bytes = options.limits.max_body_bytes;
    net.body_limit = [service = service_](const HttpRequest& head) { return body_limit(*service, head); };
    net.format_error = format_net_error;
    auto started =
        HttpServer::start(net, [this](std::shared_ptr<Exchange> exchange) { dispatch(std::move(exchange)); });
    if (!started) return started.error();
    http_ = std::move(*started);
    if (options.password.empty() && !is_loopback(options.host)) {
      spdlog::warn("anyone who reaches {} may use this server: no --password is set", http_->address());
    }
    return {};
  }

  bool stop(std::chrono::milliseconds grace) {
    std::lock_guard lock(stopping_);
    bool finished = true;
    if (http_ && !stopped_) {
      service_->draining = true;
      finished = http_->drain(std::chrono::steady_clock::now() + grace);
      if (!finished) {
        for (const ServedModelPtr& model : service_->models.all()) model->engine->cancel_all();
        http_->drain(std::chrono::steady_clock::now() + kLastWords);
      }
      http_->stop();
    }
    stopped_ = true;
    heavy_.close();
    if (worker_.joinable()) worker_.join();
    schemas_.finish();
    return finished;
  }

  const HttpServer& http() const { return *http_; }
  std::chrono::milliseconds grace() const { return service_->options.grace; }

 private:
  void dispatch(std::shared_ptr<Exchange> exchange) {
    const HttpRequest& request = exchange->request();
    RouteMatch match = find_route(request.method, request.path);
    if (request.method == "OPTIONS" && (match.path_known || request.path == "*")) {
      return answer_preflight(*exchange);
    }
    if (!match.route) {
      HttpResponse response = unrouted_response(match.path_known ? 405 : 404);
      add_cors_headers(response.headers, request, false);
      return exchange->respond(std::move(response));
    }
    const bool heavy = request.body.size() > kHeavyBody || match.route->waits_for_engine;
    auto call =
        std::make_shared<Call>(service_, *match.route, std::move(exchange), std::move(match.argument));
    if (!heavy && may_hold_schema(call->request().body)) {
      if (!schemas_.post([call] { Call::run(call); })) {
        call->fail({503, "Request queue full", {}, "queue_full", {}});
      }
      return;
    }
    if (!heavy) return Call::run(std::move(call));
    if (!heavy_.put(call)) call->fail({503, "Request queue full", {}, "queue_full", {}});
  }

  void work() {
    while (true) {
      std::vector<std::shared_ptr<Call>> calls = heavy_.wait_all(std::chrono::hours(1));
      if (calls.empty() && heavy_.closed()) return;
      for (std::shared_ptr<Call>& call : calls) Call::run(std::move(call));
    }
  }

  const std::shared_ptr<Service> service_;
  Mailbox<std::shared_ptr<Call>> heavy_{kMaxHeavyWaiting};
  std::thread worker_;
  // Requests that may have a schema compiled: nobody's stream and no other request waits for that.
  JobThread schemas_{"schemas", kMaxHeavyWaiting};
  std::unique_ptr<HttpServer> http_;
  std::mutex stopping_;
  bool stopped_ = false;
};

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, ModelRegistry& models,
                                              ModelAdmin* admin) {
  auto impl = std::make_unique<Impl>(options, models, admin);
  FULMAR_TRY(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

uint16_t Server::port() const { return impl_->http().port(); }
std::string Server::address() const { return impl_->http().address(); }
bool Server::stop() { return impl_->stop(impl_->grace()); }
bool Server::stop(std::chrono::milliseconds grace) { return impl_->stop(grace); }

}  // namespace fulmar
