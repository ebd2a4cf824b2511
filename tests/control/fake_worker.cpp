// A worker without a model: takes the flags that the control plane gives, answers the routes that it needs,
// and does on purpose what workers do by accident. Its model file tells how: "x.slow.pth" becomes ready late,
// "x.crash.pth" ends at once, "x.deaf.pth" ignores SIGTERM, "x.full.pth" answers 503, "x.limited.pth" 429 to
// who looks for something, "x.impostor.pth" cannot prove itself and prints each Authorization that it is
// sent, "x.device.pth" ends as after a device error at /crash. Sessions and responses are names that it
// keeps.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/exit_codes.h"
#include "net/conversation.h"
#include "net/http_server.h"
#include "net/json.h"
#include "net/json_writer.h"
#include "net/sse.h"
#include "net/worker_proof.h"

namespace {

using namespace fulmar;

struct Flags {
  std::string model, host = "127.0.0.1";
  int port = 0;
};

Flags read_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--model=")) flags.model = word.substr(8);
    if (word.starts_with("--host=")) flags.host = word.substr(7);
    if (word == "--port" && i + 1 < argc) flags.port = std::atoi(argv[++i]);
  }
  return flags;
}

std::string id_of(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

class FakeWorker {
 public:
  explicit FakeWorker(Flags flags) : flags_(std::move(flags)) {}

  void handle(std::shared_ptr<Exchange> exchange) {
    const HttpRequest& request = exchange->request();
    if (is_impostor()) {
      std::printf("was told '%s'\n", std::string(request.headers.get("Authorization")).c_str());
      std::fflush(stdout);
    }
    if (request.path == "/health") return answer_health(*exchange);
    if (request.path == "/long") return answer_at_length(std::move(exchange));
    if (request.path == "/v1/models") {
      return answer(*exchange, R"({"object":"list","data":[{"id":")" + id_of(flags_.model) + R"("}]})");
    }
    if (request.path == "/v1/queue/status") return answer(*exchange, queue());
    if (request.path == "/metrics") return answer(*exchange, metrics(), "text/plain");
    if (request.path == "/echo") return echo(*exchange);
    if (request.path == "/crash" && flags_.model.ends_with(".device.pth")) std::_Exit(kDeviceErrorExit);
    if (request.path == "/crash") std::abort();
    if (request.path == "/full") return answer(*exchange, R"({"error":"Request queue full"})", "", 503);
    if (request.path == "/v1/completions") return complete(std::move(exchange));
    if (request.path == "/v1/sessions") return list_sessions(*exchange);
    if (request.path == "/v1/responses") return respond(*exchange);
    if (request.path.starts_with("/v1/sessions/") || request.path.starts_with("/v1/responses/")) {
      return look_up(*exchange);
    }
    answer(*exchange, R"({"detail":"Not Found"})", "", 404);
  }

 private:
  static void answer(Exchange& exchange, std::string body, std::string type = "", int status = 200) {
    HttpResponse response{.status = status};
    if (!type.empty()) response.content_type = type;
    response.body = std::move(body);
    exchange.respond(std::move(response));
  }

  bool is_impostor() const { return flags_.model.ends_with(".impostor.pth"); }

  void answer_health(Exchange& exchange) const {
    HttpResponse response;
    response.body = R"({"status":"ok"})";
    const std::string_view challenge = exchange.request().headers.get(kChallengeHeader);
    const char* token = std::getenv(kWorkerTokenVariable);
    const std::string_view known = token && !is_impostor() ? token : "another";
    response.headers.set(std::string(kProofHeader), worker_proof(known, challenge));
    exchange.respond(std::move(response));
  }

  // As many bytes as the query's `bytes` says, with their number in front or in chunks.
  static void answer_at_length(std::shared_ptr<Exchange> exchange) {
    const Query& query = exchange->request().query;
    const auto bytes = static_cast<size_t>(std::atoll(query.find("bytes")->c_str()));
    if (!query.find("chunked")) return answer(*exchange, std::string(bytes, 'x'));
    std::thread([exchange = std::move(exchange), bytes] {
      constexpr size_t kChunk = size_t{1} << 20;
      exchange->begin_stream(HttpResponse());
      for (size_t sent = 0; sent < bytes && !exchange->disconnected(); sent += kChunk) {
        exchange->write(std::string(std::min(kChunk, bytes - sent), 'x'));
        while (exchange->backlog_bytes() > kChunk && !exchange->disconnected()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
      exchange->end();
    }).detach();
  }

  // With the model's name in the header X-Served-By.
  void answer_signed(Exchange& exchange, int status, const std::string& request_id = {}) const {
    HttpResponse response{.status = status};
    response.body = "{}";
    response.headers.set("X-Served-By", id_of(flags_.model));
    if (!request_id.empty()) response.headers.set("X-Request-Id", request_id);
    exchange.respond(std::move(response));
  }

  static Conversation named_by(const HttpRequest& request) {
    const auto body = parse_json(request.body);
    return named_conversation(request.path, request.headers, body.ok() ? *body : JsonValue());
  }

  void keep(const Conversation& named) {
    std::lock_guard lock(mutex_);
    if (named.kind != Conversation::Kind::none) known_.insert(named.id);
  }

  void respond(Exchange& exchange) {
    const Conversation before = named_by(exchange.request());
    std::string id;
    {
      std::lock_guard lock(mutex_);
      if (before.kind == Conversation::Kind::none || known_.contains(before.id)) {
        id = "resp_" + id_of(flags_.model) + std::to_string(known_.size());
        known_.insert(id);
      }
    }
    answer_signed(exchange, id.empty() ? 404 : 200, id);
  }

  void look_up(Exchange& exchange) {
    const HttpRequest& request = exchange.request();
    const Conversation named = named_by(request);
    bool known = false;
    {
      std::lock_guard lock(mutex_);
      if (request.method == "PUT") known_.insert(named.id);
      known = known_.contains(named.id);
      if (request.method == "DELETE") known_.erase(named.id);
    }
    if (known && request.path.ends_with("/fork")) {
      keep({Conversation::Kind::session, *get_string(*parse_json(request.body), "session_id").value()});
    }
    if (flags_.model.ends_with(".limited.pth")) return answer_signed(exchange, 429);
    answer_signed(exchange, known ? 200 : 404);
  }

  void list_sessions(Exchange& exchange) {
    const std::string* after = exchange.request().query.find("after");
    const std::string* limit = exchange.request().query.find("limit");
    size_t room = limit ? static_cast<size_t>(std::atoi(limit->c_str())) : 1000;
    JsonWriter json;
    json.begin_object().member("object", "list").key("data").begin_array();
    std::lock_guard lock(mutex_);
    auto next = after ? known_.upper_bound(*after) : known_.begin();
    for (; next != known_.end() && room > 0; ++next, --room)
      json.begin_object().member("id", *next).end_object();
    json.end_array().member("has_more", next != known_.end()).end_object();
    answer(exchange, json.take());
  }

  void echo(Exchange& exchange) {
    const HttpRequest& request = exchange.request();
    JsonWriter json;
    json.begin_object()
        .member("method", request.method)
        .member("target", request.target)
        .member("body", request.body)
        .member("client", exchange.client());
    json.key("headers").begin_object();
    for (const auto& [name, value] : request.headers) json.member(name, value);
    json.end_object().end_object();
    answer(exchange, json.take());
  }

  // "crash": dies before the answer. "silent": counts as running and never answers. Else `max_tokens` events,
  // "pace_ms" apart; each one's text is its number, or the time at which it was written when the prompt is
  // "clock".
  void complete(std::shared_ptr<Exchange> exchange) {
    const auto body = parse_json(exchange->request().body);
    if (!body.ok()) return answer(*exchange, R"({"error":"Invalid JSON"})", "", 400);
    const std::string prompt =
        get_string(*body, "prompt").ok() ? get_string(*body, "prompt")->value_or("") : "";
    if (prompt == "crash" || prompt == "crash " + id_of(flags_.model)) std::abort();
    if (flags_.model.ends_with(".full.pth")) return answer(*exchange, R"({"error":"full"})", "", 503);
    keep(named_by(exchange->request()));
    if (prompt == "silent") {
      std::lock_guard lock(mutex_);
      ++running_;
      return kept_.push_back(std::move(exchange));
    }
    const int64_t tokens = get_int(*body, "max_tokens")->value_or(4);
    const int64_t pace = get_int(*body, "pace_ms")->value_or(1);
    const bool clock = prompt == "clock";
    std::thread([this, exchange = std::move(exchange), tokens, pace, clock] {
      stream(*exchange, tokens, pace, clock);
    }).detach();
  }

  void stream(Exchange& exchange, int64_t tokens, int64_t pace, bool clock) {
    count(&FakeWorker::running_, 1);
    HttpResponse head;
    head.content_type = kSseContentType;
    head.headers.set("X-Request-Id", "cmpl-1");
    head.headers.set("X-Served-By", id_of(flags_.model));
    exchange.begin_stream(std::move(head));
    for (int64_t i = 0; i < tokens && !exchange.disconnected(); ++i) {
      const int64_t text = clock ? std::chrono::steady_clock::now().time_since_epoch().count() : i;
      exchange.write(sse_event(R"({"choices":[{"index":0,"text":")" + std::to_string(text) + R"( "}]})"));
      std::this_thread::sleep_for(std::chrono::milliseconds(pace));
    }
    count(&FakeWorker::running_, -1);
    count(exchange.disconnected() ? &FakeWorker::cancelled_ : &FakeWorker::completed_, 1);
    exchange.write(std::string(kSseDone));
    exchange.end();
  }

  void count(int64_t FakeWorker::*figure, int64_t change) {
    std::lock_guard lock(mutex_);
    this->*figure += change;
  }

  std::string queue() {
    std::lock_guard lock(mutex_);
    JsonWriter json;
    json.begin_object().member("waiting", 0).member("total_active", running_).key("stats").begin_object();
    json.member("cancelled_requests", cancelled_).member("completed_requests", completed_);
    json.end_object().end_object();
    return json.take();
  }

  std::string metrics() {
    std::lock_guard lock(mutex_);
    return "# HELP fulmar_decode_tokens_per_second Tokens.\n# TYPE fulmar_decode_tokens_per_second gauge\n"
           "fulmar_decode_tokens_per_second " +
           std::to_string(running_ * 10) + "\n";
  }

  const Flags flags_;
  std::mutex mutex_;
  std::set<std::string> known_;  // ids of sessions and responses
  int64_t running_ = 0, cancelled_ = 0, completed_ = 0;
  std::vector<std::shared_ptr<Exchange>> kept_;
};

}  // namespace

int main(int argc, char** argv) {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  const Flags flags = read_flags(argc, argv);
  std::printf("fake worker for %s\n", flags.model.c_str());
  std::printf("CUDA_VISIBLE_DEVICES=%s\n", std::getenv("CUDA_VISIBLE_DEVICES") ?: "unset");
  std::fflush(stdout);
  if (flags.model.ends_with(".crash.pth")) {
    std::fprintf(stderr, "no such luck\n");
    return 3;
  }
  if (flags.model.ends_with(".slow.pth")) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  FakeWorker worker(flags);
  HttpServerOptions options{.host = flags.host, .port = static_cast<uint16_t>(flags.port)};
  if (const char* token = std::getenv(kWorkerTokenVariable)) options.proxies.worker_token = token;
  auto server = HttpServer::start(
      std::move(options), [&](std::shared_ptr<Exchange> exchange) { worker.handle(std::move(exchange)); });
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.error().text.c_str());
    return 1;
  }
  int number = 0;
  do {
    sigwait(&ending, &number);
  } while (flags.model.ends_with(".deaf.pth"));
  (*server)->drain(std::chrono::steady_clock::now() + std::chrono::seconds(5));
  return 0;
}
