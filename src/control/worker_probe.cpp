// The questions of one round run at the same time; the last answer replies.
#include "control/worker_probe.h"

#include <chrono>
#include <memory>
#include <utility>

#include "net/json.h"
#include "net/worker_proof.h"

namespace fulmar {
namespace {

constexpr std::chrono::seconds kPatience{3};
constexpr size_t kMostBytes = size_t{4} << 20;

struct Heard {
  int status = 0;
  Headers headers;
  std::string body;
};
using HeardReply = std::function<void(const Heard* heard)>;  // null unless the status was 200

void get(HttpClient& client, const WorkerSpec& spec, const char* target, Headers headers, HeardReply reply) {
  ClientRequest request{.host = reachable_host(spec.host),
                        .port = static_cast<uint16_t>(spec.port),
                        .target = target,
                        .headers = std::move(headers),
                        .connect_timeout = kPatience,
                        .total_timeout = kPatience};
  auto heard = std::make_shared<Heard>();
  client.send(std::move(request), {.on_head =
                                       [heard](int status, const Headers& received) {
                                         heard->status = status;
                                         heard->headers = received;
                                       },
                                   .on_data =
                                       [heard](std::string_view bytes) {
                                         if (heard->body.size() < kMostBytes) heard->body.append(bytes);
                                       },
                                   .on_end =
                                       [heard, reply = std::move(reply)](const ClientOutcome& outcome) {
                                         const bool good = outcome.ok() && heard->status == 200;
                                         reply(good ? heard.get() : nullptr);
                                       }});
}

std::optional<QueueFigures> read_queue(const std::string& text) {
  const auto body = parse_json(text);
  if (!body.ok()) return std::nullopt;
  const auto waiting = get_int(*body, "waiting");
  const auto running = get_int(*body, "total_active");
  if (!waiting.ok() || !running.ok()) return std::nullopt;
  return QueueFigures{.waiting = waiting->value_or(0), .running = running->value_or(0)};
}

// Collects the parts of one round; replies when the last reference goes.
struct Round {
  explicit Round(ProbeReply to) : reply(std::move(to)) {}
  ~Round() { reply(std::move(answer)); }

  ProbeAnswer answer;
  ProbeReply reply;
};

// Asks for the figures; only for a worker that has proved itself.
void ask_figures(HttpClient& client, const WorkerSpec& spec, const std::string& password, ProbeDepth depth,
                 const std::shared_ptr<Round>& round) {
  Headers headers;
  if (!password.empty()) headers.set("Authorization", "Bearer " + password);
  get(client, spec, "/v1/queue/status", headers, [round](const Heard* heard) {
    if (heard) round->answer.queue = read_queue(heard->body);
  });
  get(client, spec, "/metrics", headers, [round](const Heard* heard) {
    if (heard) round->answer.metrics = heard->body;
  });
  if (depth == ProbeDepth::figures) return;
  get(client, spec, "/v1/models", headers, [round](const Heard* heard) {
    if (heard) round->answer.models_json = heard->body;
  });
}

}  // namespace

void probe_worker(HttpClient& client, const WorkerSpec& spec, const ProbeSecrets& secrets, ProbeDepth depth,
                  ProbeReply reply) {
  // All callbacks run on the client's one thread, so that the round needs no lock.
  auto round = std::make_shared<Round>(std::move(reply));
  const std::string challenge = random_hex();
  Headers headers;
  headers.set(std::string(kChallengeHeader), challenge);
  get(client, spec, "/health", headers,
      [&client, spec, secrets, challenge, depth, round](const Heard* heard) {
        if (!heard) return;
        round->answer.healthy = heard->headers.get(kProofHeader) == worker_proof(secrets.token, challenge);
        round->answer.impostor = !round->answer.healthy;
        if (round->answer.healthy && depth != ProbeDepth::health) {
          ask_figures(client, spec, secrets.password, depth, round);
        }
      });
}

std::vector<std::string> model_ids(const std::string& models_json) {
  std::vector<std::string> ids;
  const auto body = parse_json(models_json);
  if (!body.ok()) return ids;
  const auto data = get_array(*body, "data");
  if (!data.ok() || *data == nullptr) return ids;
  for (const JsonValue& model : **data) {
    const JsonValue* id = model.find("id");
    if (id != nullptr && id->is_string()) ids.push_back(id->as_string());
  }
  return ids;
}

}  // namespace fulmar
