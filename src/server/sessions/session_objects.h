// Sessions as objects: list, export, import, copy and delete them. The exported form is that of
// cache/state_blob.h.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kForkFields{"fork", {{"session_id", Takes::text(), "of the copy"}}};

inline constexpr JsonShape kSessionObject{
    "session", R"({"id":"string","object":"=session","model":"string","tokens":"integer"})"};
inline constexpr JsonShape kSessionObjects{
    "session.list",
    R"({"object":"=list","data":[{"id":"string","object":"=session","model":"string",)"
    R"("level":"=device|=host|=store","tokens":"integer","owner?":"string"}],"has_more":"boolean"})"};
inline constexpr JsonShape kSessionDeleted{"session.deleted",
                                           R"({"id":"string","object":"=session","deleted":true})"};

void list_session_objects(std::shared_ptr<Call> call);  // GET /v1/sessions
void export_session(std::shared_ptr<Call> call);        // GET /v1/sessions/{id}/state
void import_session(std::shared_ptr<Call> call);        // PUT /v1/sessions/{id}/state
void fork_session(std::shared_ptr<Call> call);          // POST /v1/sessions/{id}/fork
void drop_session(std::shared_ptr<Call> call);          // DELETE /v1/sessions/{id}

}  // namespace fulmar
