// Controls running requests: cancel, stop, pause, resume (docs/http.md, "Steering").
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"
#include "server/status/status.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kRequestFields{
    "request", {{"request_id", Takes::text(), "of the request; absent: the newest, or all"}}};
inline constexpr FieldTable kResumeFields{
    "resume",
    {{"model", Takes::text(), "name in the answer"},
     {"request_id", Takes::text(), "of the request"},
     {"session_id", Takes::text(), "or the session of the request"},
     {"max_tokens", Takes::integer(0), "further ones; absent: as many as were left"},
     {"chunk_size", Takes::integer(), "tokens of one event; below 1 means 1", "1"}}};

inline constexpr JsonShape kCancelled{"cancelled", R"({"status":"=cancelled","request_id":"string"})"};
// Answers of stopping and of pausing.
inline constexpr JsonShape kSteered{
    "steered",
    R"({"ok":true,"stopped?":"boolean","paused?":"boolean","request_id?":"string",)"
    R"("active_request":"@active_request|null"})",
    &kActiveRequest};

void cancel_request(std::shared_ptr<Call> call);  // DELETE /v1/requests/{id}
void stop_requests(std::shared_ptr<Call> call);   // /v1/server/stop
void pause_request(std::shared_ptr<Call> call);   // /v1/server/pause
void resume_request(std::shared_ptr<Call> call);  // /v1/server/resume

}  // namespace fulmar
