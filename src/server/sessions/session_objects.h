// Sessions as objects that can be listed, taken out, put in, copied and dropped. What is taken out is the
// serial form of cache/state_blob.h.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void list_session_objects(std::shared_ptr<Call> call);  // GET /v1/sessions
void export_session(std::shared_ptr<Call> call);        // GET /v1/sessions/{id}/state
void import_session(std::shared_ptr<Call> call);        // PUT /v1/sessions/{id}/state
void fork_session(std::shared_ptr<Call> call);          // POST /v1/sessions/{id}/fork
void drop_session(std::shared_ptr<Call> call);          // DELETE /v1/sessions/{id}

}  // namespace fulmar
