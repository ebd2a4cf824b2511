// Wires the listener, the routes, the relay's client and the supervisor.
#include "control/control_server.h"

#include <utility>

#include "base/log.h"
#include "control/control_answers.h"
#include "control/control_routes.h"
#include "net/host_check.h"
#include "net/http_client.h"
#include "net/http_server.h"

namespace fulmar {
namespace {

constexpr std::chrono::seconds kLastAnswers{2};
constexpr size_t kMostParsing = 64;  // large bodies that wait to be parsed

// Returns the names in Host under which clients without a password may reach this server.
std::vector<std::string> names_of(const ControlOptions& options) {
  std::vector<std::string> names = options.allowed_hosts;
  names.push_back(options.host);
  return names;
}

HttpResponse plain_error(const HttpRequest&, int status, std::string_view text) {
  HttpResponse response = detail_answer(status, text);
  add_cors(response.headers);
  return response;
}

}  // namespace

class ControlServer::Impl {
 public:
  explicit Impl(const ControlOptions& options)
      : supervisor_(options.supervisor),
        service_{.password = options.password,
                 .models_dir = options.models_dir,
                 .shared_store = options.shared_store,
                 .hosts = names_of(options),
                 .supervisor = supervisor_,
                 .client = client_,
                 .parsing = parsing_,
                 .relay_timeout = options.relay_timeout,
                 .told_gpus = options.gpus} {}
  ~Impl() { stop(); }

  Status listen(const ControlOptions& options) {
    HttpServerOptions listener{.host = options.host, .port = options.port, .threads = options.io_threads};
    listener.format_error = plain_error;
    listener.proxies.trusted = options.trusted_proxies;
    listener.body_rule = [this](const HttpRequest& head) { return control_body_rule(service_, head); };
    FULMAR_ASSIGN(server_, HttpServer::start(std::move(listener), [this](std::shared_ptr<Exchange> exchange) {
                    handle_control_request(service_, std::move(exchange));
                  }));
    return {};
  }

  void stop() {
    service_.draining = true;
    if (server_) server_->stop_accepting();
    supervisor_.stop_all();
    if (!server_) return;
    server_->drain(std::chrono::steady_clock::now() + kLastAnswers);
    server_->stop();
    parsing_.finish();
  }

  HttpServer& server() { return *server_; }
  Supervisor& supervisor() { return supervisor_; }

 private:
  // The listener goes first, then the client, whose callbacks know exchanges only, then the supervisor.
  Supervisor supervisor_;
  HttpClient client_;
  JobThread parsing_{"bodies", kMostParsing};
  ControlService service_;
  std::unique_ptr<HttpServer> server_;
};

Result<std::unique_ptr<ControlServer>> ControlServer::start(const ControlOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  FULMAR_TRY(impl->listen(options));
  if (!is_loopback_host(options.host) && options.password.empty()) {
    spdlog::warn("other hosts can start and stop workers here: listening on {} without --password",
                 options.host);
  }
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

uint16_t ControlServer::port() const { return impl_->server().port(); }
std::string ControlServer::address() const { return impl_->server().address(); }
Supervisor& ControlServer::supervisor() { return impl_->supervisor(); }
void ControlServer::stop() { impl_->stop(); }

}  // namespace fulmar
