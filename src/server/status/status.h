// Health, figures and lists of what runs (docs/http.md, "Health and figures" and "Steering").
#pragma once

#include <memory>
#include <vector>

#include "engine/stats.h"
#include "net/json_writer.h"
#include "server/models/served_model.h"

namespace fulmar {

class Call;
struct Service;

void health(std::shared_ptr<Call> call);           // /health
void health_of_model(std::shared_ptr<Call> call);  // /healthz
void health_check(std::shared_ptr<Call> call);     // /healthcheck
void metrics(std::shared_ptr<Call> call);          // /metrics
void queue_status(std::shared_ptr<Call> call);     // /v1/queue/status
void engine_figures(std::shared_ptr<Call> call);   // /v1/stats
void server_status(std::shared_ptr<Call> call);    // /v1/server/status
void slots(std::shared_ptr<Call> call);            // /slots
void properties(std::shared_ptr<Call> call);       // /props

// One entry for each device that loaded models run on.
std::vector<DeviceMemory> device_memories(const Service& service);
// The figures of all loaded models together, of requests those that the caller may know of.
EngineStats stats_seen_by(const Call& call);
// One request as an object; `finished`: it is over.
void write_request(JsonWriter& json, const RequestStatus& request, bool finished = false);
// The newest request that is neither waiting nor done, or null.
void write_active_request(JsonWriter& json, const EngineStats& stats);

}  // namespace fulmar
