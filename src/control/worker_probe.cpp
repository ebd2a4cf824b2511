// The questions of one round run at the same time; the last answer replies.
#include "control/worker_probe.h"

#include <chrono>
#include <memory>
#include <utility>

#include "net/json.h"

namespace fulmar {
namespace {

constexpr std::chrono::seconds kPatience{3};
constexpr size_t kMostBytes = size_t{4} << 20;

using BodyReply = std::function<void(std::optional<std::string> body)>;  // nothing unless the status was 200

void get(HttpClient& client, const WorkerSpec& spec, const std::string& password, const char* target,
         BodyReply reply) {
  ClientRequest request{.host = reachable_host(spec.host),
                        .port = static_cast<uint16_t>(spec.port),
                        .target = target,
                        .connect_timeout = kPatience,
                        .total_timeout = kPatience};
  if (!password.empty()) request.headers.set("Authorization", "Bearer " + password);
  struct Heard {
    int status = 0;
    std::string body;
  };
  auto heard = std::make_shared<Heard>();
  client.send(std::move(request), {.on_head = [heard](int status, const Headers&) { heard->status = status; },
                                   .on_data =
                                       [heard](std::string_view bytes) {
                                         if (heard->body.size() < kMostBytes) heard->body.append(bytes);
                                       },
                                   .on_end =
                                       [heard, reply = std::move(reply)](Status outcome) {
                                         const bool good = outcome.ok() && heard->status == 200;
                                         reply(good ? std::optional(std::move(heard->body)) : std::nullopt);
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

}  // namespace

void probe_worker(HttpClient& client, const WorkerSpec& spec, const std::string& password, ProbeDepth depth,
                  ProbeReply reply) {
  // All callbacks run on the client's one thread, so that the round needs no lock.
  auto round = std::make_shared<Round>(std::move(reply));
  get(client, spec, password, "/health", [round](auto body) { round->answer.healthy = body.has_value(); });
  if (depth == ProbeDepth::health) return;
  get(client, spec, password, "/v1/queue/status", [round](auto body) {
    if (body) round->answer.queue = read_queue(*body);
  });
  get(client, spec, password, "/metrics", [round](auto body) { round->answer.metrics = std::move(body); });
  if (depth == ProbeDepth::figures) return;
  get(client, spec, password, "/v1/models",
      [round](auto body) { round->answer.models_json = std::move(body); });
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
