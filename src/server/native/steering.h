// Steering requests under way: cancel, stop, pause, resume (docs/http.md, "Steering").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void cancel_request(std::shared_ptr<Call> call);  // DELETE /v1/requests/{id}
void stop_requests(std::shared_ptr<Call> call);   // /v1/server/stop
void pause_request(std::shared_ptr<Call> call);   // /v1/server/pause
void resume_request(std::shared_ptr<Call> call);  // /v1/server/resume

}  // namespace fulmar
