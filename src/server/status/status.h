// Health, figures and lists of running requests (docs/http.md, "Health and figures" and "Steering").
#pragma once

#include <memory>
#include <vector>

#include "engine/stats.h"
#include "net/json_writer.h"
#include "server/core/shape.h"
#include "server/generate/writer_parts.h"
#include "server/models/served_model.h"

namespace fulmar {

class Call;
struct Service;

inline constexpr JsonShape kQueue{
    "queue",
    R"({"waiting":"integer","prefill":"integer","decode":"integer","total_active":"integer",)"
    R"("available_slots":"integer","stats":{"total_requests":"integer","completed_requests":"integer",)"
    R"("rejected_requests":"integer","cancelled_requests":"integer"}})"};
inline constexpr JsonShape kHealth{
    "health",
    R"({"status":"=ok|=degraded","session_store?":{"error":"string","waiting_bytes":"integer"},)"
    R"("response_store?":{"error":"string"},"queue":"@queue","timestamp":"number"})",
    &kQueue};
inline constexpr JsonShape kModelHealth{"health.model",
                                        R"({"status":"=ok","model":"string","runtime":"string"})"};
inline constexpr JsonShape kHealthCheck{"health.check", R"({"message":"=ok","status_code":200})"};
inline constexpr JsonShape kUnavailable{
    "error.unavailable", R"({"error":{"message":"string","type":"=unavailable_error","code":503}})"};
inline constexpr JsonShape kFigures{
    "figures",
    R"({"total_tokens_generated":"integer","total_prefill_tokens":"integer","iterations":"integer",)"
    R"("start_time":"number","queue_status":"@queue","pool_stats":{"max_batch_size":"integer",)"
    R"("available_slots":"integer","active_count":"integer","status_counts":{"*":"integer"}},)"
    R"("batch_optimizer":{"current_max_batch_size":"integer","current_prefill_chunk_size":"integer",)"
    R"("iteration_count":"integer","oom_count":"integer","memory?":{"*":"number"}}})",
    &kQueue};
inline constexpr JsonShape kActiveRequest{
    "active_request",
    R"({"id":"string","endpoint":"string","model":"string","created":"number","prompt_tokens":"integer",)"
    R"("prefilled_tokens":"integer","generated_tokens":"integer","max_tokens":"integer",)"
    R"("stop_requested":"boolean","pause_requested":"boolean","prefill_progress":"number",)"
    R"("prefill_speed":"number","decode_speed":"number","finished?":"boolean","state_key?":"string",)"
    R"("adapter?":"@adapter"})",
    &kAdapterTold};
inline constexpr JsonShape kServerStatus{
    "server_status",
    R"({"status":"=running","api_version":"string","engine_version":"string","model":{"id":"string",)"
    R"("name":"string","path":"string","loaded":"boolean"},"capabilities":{"*":"boolean"},)"
    R"("prefill_chunk_size":"integer","fast_forwarded_tokens":"integer","prefill_queue":{"*":"integer"},)"
    R"("active_request":"@active_request|null","active_requests":["@active_request"],)"
    R"("last_request":"@active_request|null","paused_requests":[{"id":"string","endpoint":"string",)"
    R"("model":"string","created":"number","generated_tokens":"integer","adapter?":"@adapter"}]})",
    {&kActiveRequest, &kAdapterTold}};
inline constexpr JsonShape kSlots{
    "slots",
    R"([{"id":"integer","state":"=FREE|=PREFILL|=DECODE|=PENDING","is_processing":"boolean",)"
    R"("request_id":"string|null","prompt_tokens":"integer","generated_tokens":"integer",)"
    R"("adapter?":"@adapter"}])",
    &kAdapterTold};
inline constexpr JsonShape kProperties{
    "properties",
    R"({"default_generation_settings":{"*":"number"},"total_slots":"integer","model_path":"string",)"
    R"("chat_template":"string","build_info":"string"})"};

void health(std::shared_ptr<Call> call);           // /health
void health_of_model(std::shared_ptr<Call> call);  // /healthz
void health_check(std::shared_ptr<Call> call);     // /healthcheck
void metrics(std::shared_ptr<Call> call);          // /metrics
void queue_status(std::shared_ptr<Call> call);     // /v1/queue/status
void engine_figures(std::shared_ptr<Call> call);   // /v1/stats
void server_status(std::shared_ptr<Call> call);    // /v1/server/status
void slots(std::shared_ptr<Call> call);            // /slots
void properties(std::shared_ptr<Call> call);       // /props

// Lists each device that loaded models run on, once.
std::vector<DeviceMemory> device_memories(const Service& service);
// Returns the figures of all loaded models together, with only those requests that the caller may see.
EngineStats stats_seen_by(const Call& call);
// Writes one request as an object. `finished`: it has ended.
void write_request(JsonWriter& json, const RequestStatus& request, bool finished = false);
// Writes the newest request that is neither waiting nor done, or null.
void write_active_request(JsonWriter& json, const EngineStats& stats);

}  // namespace fulmar
