// Health, figures and lists of what runs (http-api.md 9.2, 11, 12.3).
#pragma once

#include <memory>

#include "engine/stats.h"
#include "net/json_writer.h"

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

// The figures of all loaded models together.
EngineStats stats_of_all(const Service& service);
// One request as an object.
void write_request(JsonWriter& json, const RequestStatus& request);
// The newest request that is neither waiting nor done, or null.
void write_active_request(JsonWriter& json, const EngineStats& stats);

}  // namespace fulmar
