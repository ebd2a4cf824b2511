// Writes answers from the engine's figures.
#include "server/status/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "base/version.h"
#include "net/worker_proof.h"
#include "server/adapters/adapter_registry.h"
#include "server/core/call.h"
#include "server/generate/intake.h"
#include "server/models/engine_figures.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

void write_queue(JsonWriter& json, const EngineStats& stats) {
  json.begin_object()
      .member("waiting", stats.rows_waiting)
      .member("prefill", stats.rows_prefill)
      .member("decode", stats.rows_decode)
      .member("total_active", stats.rows_prefill + stats.rows_decode)
      .member("available_slots", stats.slots_total - stats.slots_used);
  json.key("stats")
      .begin_object()
      .member("total_requests", stats.requests_total)
      .member("completed_requests", stats.requests_completed)
      .member("rejected_requests", stats.requests_rejected)
      .member("cancelled_requests", stats.requests_cancelled)
      .end_object();
  json.end_object();
}

DeviceMemory sum_of(std::span<const DeviceMemory> devices) {
  DeviceMemory sum;
  for (const DeviceMemory& device : devices) {
    sum.total += device.total;
    sum.free += device.free;
  }
  return sum;
}

// Writes memory in the units of the Albatross worker.
void write_memory(JsonWriter& json, const DeviceMemory& memory) {
  constexpr double kMiB = 1 << 20;
  const auto used = static_cast<double>(memory.total - memory.free);
  json.begin_object()
      .member("total_mb", static_cast<double>(memory.total) / kMiB)
      .member("allocated_mb", used / kMiB)
      .member("reserved_mb", used / kMiB)
      .member("free_mb", static_cast<double>(memory.free) / kMiB)
      .member("utilization", memory.total > 0 ? used / static_cast<double>(memory.total) : 0.0)
      .end_object();
}

std::string_view phase_name(SlotStatus::Phase phase) {
  switch (phase) {
    case SlotStatus::Phase::free:
      return "FREE";
    case SlotStatus::Phase::prefill:
      return "PREFILL";
    case SlotStatus::Phase::decode:
      return "DECODE";
    case SlotStatus::Phase::closing:
      break;
  }
  return "PENDING";
}

void write_pool(JsonWriter& json, const EngineStats& stats) {
  using Phase = SlotStatus::Phase;
  json.begin_object()
      .member("max_batch_size", stats.slots_total)
      .member("available_slots", stats.slots_total - stats.slots_used)
      .member("active_count", stats.slots_used);
  json.key("status_counts").begin_object();
  for (const Phase phase : {Phase::free, Phase::prefill, Phase::decode, Phase::closing}) {
    json.member(phase_name(phase),
                std::count_if(stats.slots.begin(), stats.slots.end(),
                              [&](const SlotStatus& slot) { return slot.phase == phase; }));
  }
  json.end_object().end_object();
}

void write_model(JsonWriter& json, const ServedModelPtr& model, bool trusted) {
  if (!model) {
    json.begin_object().member("id", "").member("name", "").member("path", "").member("loaded", false);
  } else {
    json.begin_object()
        .member("id", model->id)
        .member("name", model->view_name.empty() ? model->id : model->view_name)
        .member("path", trusted ? model->path : std::string())
        .member("loaded", true);
  }
  json.end_object();
}

void write_capabilities(JsonWriter& json) {
  json.begin_object();
  for (const std::string_view name :
       {"chat_messages", "completion", "batch_completion", "stream", "stop", "token_count", "metrics",
        "session_cache", "pause_resume", "think_type", "concurrent_generation", "chunk_prefill"}) {
    json.member(name, true);
  }
  json.end_object();
}

void write_paused(JsonWriter& json, const RequestStatus& request) {
  json.begin_object()
      .member("id", request.id)
      .member("endpoint", request.endpoint)
      .member("model", request.model)
      .member("created", request.created)
      .member("generated_tokens", request.generated_tokens);
  write_adapter(json, request.adapter);
  json.end_object();
}

ServedModelPtr default_model(const Service& service) { return service.models.default_model(); }

void respond_unavailable(Call& call, std::string_view text) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().member("message", text);
  json.member("type", "unavailable_error").member("code", 503).end_object();
  call.respond_json(json.end_object().take(), 503);
}

// Returns the default model. Null, with the call answered, when none is loaded or an engine has failed.
ServedModelPtr ready_model(Call& call) {
  ServedModelPtr model = default_model(call.service());
  if (!model) {
    respond_unavailable(
        call, call.service().loading ? "Loading model" : "No model loaded; POST /loadmodel brings one");
    return model;
  }
  for (const ServedModelPtr& one : call.service().models.all()) {
    if (one->engine->stats().failure.empty()) continue;
    respond_unavailable(call, "The engine or its device has failed");
    return nullptr;
  }
  return model;
}

// Returns the health of the session store. A store that was asked for but could not be opened counts as
// failed.
StoreHealth store_condition(const Service& service) {
  StoreHealth health = service.models.store_health();
  if (health.trouble.empty()) health.trouble = service.options.sessions_in_memory;
  return health;
}

// Writes "ok" or "degraded". A failing store does not make the status unhealthy: requests are still answered,
// and their turns wait to be stored.
void write_condition(JsonWriter& json, const Call& call) {
  const StoreHealth store = store_condition(call.service());
  std::string responses = call.service().families.response_trouble(call.service());
  if (responses.empty()) responses = call.service().options.responses_in_memory;
  const auto told = [&](const std::string& trouble) {
    return call.trusted() ? std::string_view(trouble) : "it fails";
  };
  json.member("status", store.trouble.empty() && responses.empty() ? "ok" : "degraded");
  if (!store.trouble.empty()) {
    json.key("session_store").begin_object().member("error", told(store.trouble));
    json.member("waiting_bytes", store.waiting_bytes).end_object();
  }
  if (responses.empty()) return;
  json.key("response_store").begin_object().member("error", told(responses)).end_object();
}

// Returns a model as ready_model() does; null, with the call answered, while the server shuts down, so that
// load balancers send nothing more.
ServedModelPtr healthy_model(Call& call) {
  if (!call.service().draining) return ready_model(call);
  respond_unavailable(call, "Server is shutting down");
  return nullptr;
}

}  // namespace

std::vector<DeviceMemory> device_memories(const Service& service) {
  std::vector<DeviceMemory> memories;
  for (const ServedModelPtr& model : service.models.all()) {
    if (!model->device_memory) continue;
    for (DeviceMemory& memory : model->device_memory()) {
      const auto known = std::find_if(memories.begin(), memories.end(),
                                      [&](const DeviceMemory& one) { return one.device == memory.device; });
      if (known == memories.end()) {
        memories.push_back(std::move(memory));
      } else {
        known->layers += memory.layers;
      }
    }
  }
  return memories;
}

EngineStats stats_seen_by(const Call& call) {
  return hide_others(call.service().models.figures(), call.owner());
}

void write_request(JsonWriter& json, const RequestStatus& request, bool finished) {
  const double progress = request.prompt_tokens > 0 ? static_cast<double>(request.prefilled_tokens) /
                                                          static_cast<double>(request.prompt_tokens)
                                                    : 0.0;
  json.begin_object()
      .member("id", request.id)
      .member("endpoint", request.endpoint)
      .member("model", request.model)
      .member("created", request.created)
      .member("prompt_tokens", request.prompt_tokens)
      .member("prefilled_tokens", request.prefilled_tokens)
      .member("generated_tokens", request.generated_tokens)
      .member("max_tokens", request.max_tokens)
      .member("stop_requested", request.stop_requested)
      .member("pause_requested", false)
      .member("prefill_progress", std::clamp(progress, 0.0, 1.0))
      .member("prefill_speed", request.prefill_speed)
      .member("decode_speed", request.decode_speed);
  if (finished) json.member("finished", true);
  if (!request.session.empty()) json.member("state_key", request.session);
  write_adapter(json, request.adapter);
  json.end_object();
}

void write_active_request(JsonWriter& json, const EngineStats& stats) {
  const auto newest = std::find_if(stats.requests.rbegin(), stats.requests.rend(),
                                   [](const RequestStatus& request) { return !request.waiting; });
  if (newest == stats.requests.rend()) {
    json.null();
  } else {
    write_request(json, *newest);
  }
}

void health(std::shared_ptr<Call> call) {
  if (!healthy_model(*call)) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  JsonWriter json;
  json.begin_object();
  write_condition(json, *call);
  json.key("queue");
  write_queue(json, stats_seen_by(*call));
  json.member("timestamp", std::chrono::duration<double>(now).count()).end_object();
  HttpResponse response;
  response.body = json.take();
  if (const std::string* challenge = call->request().headers.find(kChallengeHeader);
      challenge != nullptr && is_challenge(*challenge)) {
    const std::string proof = worker_proof(call->service().options.worker_token, *challenge);
    if (!proof.empty()) response.headers.set(std::string(kProofHeader), proof);
  }
  call->respond(std::move(response));
}

void health_of_model(std::shared_ptr<Call> call) {
  const ServedModelPtr model = healthy_model(*call);
  if (!model) return;
  JsonWriter json;
  json.begin_object().member("status", "ok").member("model", model->id).member("runtime", model->runtime);
  call->respond_json(json.end_object().take());
}

void health_check(std::shared_ptr<Call> call) { call->respond_json(R"({"message":"ok","status_code":200})"); }

void metrics(std::shared_ptr<Call> call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  const Service& service = call->service();
  response.body =
      service.metrics.text(stats_seen_by(*call), store_condition(service), device_memories(service),
                           call->keys_seen(), service.families.adapters->figures());
  call->respond(std::move(response));
}

void queue_status(std::shared_ptr<Call> call) {
  JsonWriter json;
  write_queue(json, stats_seen_by(*call));
  call->respond_json(json.take());
}

void engine_figures(std::shared_ptr<Call> call) {
  const EngineStats stats = stats_seen_by(*call);
  JsonWriter json;
  json.begin_object()
      .member("total_tokens_generated", stats.generated_tokens)
      .member("total_prefill_tokens", stats.prompt_tokens)
      .member("iterations", stats.steps)
      .member("start_time", stats.start_time);
  json.key("queue_status");
  write_queue(json, stats);
  json.key("pool_stats");
  write_pool(json, stats);
  json.key("batch_optimizer")
      .begin_object()
      .member("current_max_batch_size", stats.slots_total)
      .member("current_prefill_chunk_size", call->service().options.prefill_chunk)
      .member("iteration_count", stats.steps)
      .member("oom_count", 0);
  if (const auto memories = device_memories(call->service()); !memories.empty()) {
    json.key("memory");
    write_memory(json, sum_of(memories));
  }
  json.end_object();
  call->respond_json(json.end_object().take());
}

void server_status(std::shared_ptr<Call> call) {
  const Service& service = call->service();
  const EngineStats stats = stats_seen_by(*call);
  const ServedModelPtr model = default_model(service);
  JsonWriter json;
  json.begin_object().member("status", "running").member("api_version", "1");
  json.member("engine_version", program_version()).key("model");
  write_model(json, model, call->trusted());
  json.key("capabilities");
  write_capabilities(json);
  json.member("prefill_chunk_size", service.options.prefill_chunk);
  json.member("fast_forwarded_tokens", stats.forwarded_tokens);
  json.key("prefill_queue")
      .begin_object()
      .member("hard_max_bsz", stats.slots_total)
      .member("dynamic_max_bsz", stats.slots_total)
      .member("reserved_bsz", stats.slots_used)
      .member("available_bsz", stats.slots_total - stats.slots_used)
      .member("queued_requests", stats.requests_waiting)
      .member("bytes_per_bsz", model ? model->state_bytes : 0);
  const DeviceMemory memory = sum_of(device_memories(service));
  json.member("free_vram_bytes", memory.free)
      .member("total_vram_bytes", memory.total)
      .member("reserve_vram_bytes", 0)
      .end_object();
  json.key("active_request");
  write_active_request(json, stats);
  json.key("active_requests").begin_array();
  for (const RequestStatus& request : stats.requests) write_request(json, request);
  json.end_array().key("last_request");
  if (stats.last_finished.id.empty()) {
    json.null();
  } else {
    write_request(json, stats.last_finished, true);
  }
  json.key("paused_requests").begin_array();
  for (const RequestStatus& request : stats.paused) write_paused(json, request);
  call->respond_json(json.end_array().end_object().take());
}

void slots(std::shared_ptr<Call> call) {
  const EngineStats stats = stats_seen_by(*call);
  JsonWriter json;
  json.begin_array();
  for (const SlotStatus& slot : stats.slots) {
    json.begin_object()
        .member("id", slot.id)
        .member("state", phase_name(slot.phase))
        .member("is_processing", slot.phase != SlotStatus::Phase::free)
        .key("request_id");
    slot.hidden ? json.null() : json.value(slot.request_id);
    json.member("prompt_tokens", slot.prompt_tokens).member("generated_tokens", slot.generated_tokens);
    write_adapter(json, slot.adapter);
    json.end_object();
  }
  call->respond_json(json.end_array().take());
}

void properties(std::shared_ptr<Call> call) {
  const ServedModelPtr model = ready_model(*call);
  if (!model) return;
  const EngineStats stats = model->engine->stats();
  JsonWriter json;
  json.begin_object().key("default_generation_settings").begin_object();
  json.member("n_predict", kChatDefaults.max_tokens)
      .member("temperature", kChatDefaults.temperature)
      .member("top_k", kChatDefaults.top_k)
      .member("top_p", kChatDefaults.top_p)
      .member("presence_penalty", kChatDefaults.presence)
      .member("frequency_penalty", kChatDefaults.frequency)
      .end_object();
  json.member("total_slots", stats.slots_total)
      .member("model_path", call->trusted() ? model->path : std::string())
      .member("chat_template", render_utterance("{content}", ThinkMode::none, *model->prompt_template))
      .member("build_info", fmt::format("fulmar {}", program_version()));
  call->respond_json(json.end_object().take());
}

}  // namespace fulmar
