// Sessions: continuing, listing and dropping them (docs/http.md, "Sessions").
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kDropFields{"forget",
                                        {{"session_id", Takes::text(), "which"},
                                         {"delete_prefix", Takes::boolean(), "its branches, too", "false"}}};

inline constexpr JsonShape kSessionList{
    "sessions",
    R"({"status":"=success","total_sessions":"integer","l1_cache_count":"integer",)"
    R"("l2_cache_count":"integer","database_count":"integer","sessions":[{"session_id":"string",)"
    R"("cache_level":"string","last_updated":"string","timestamp":"number","owner?":"string"}]})"};
inline constexpr JsonShape kSessionGone{"session.gone",
                                        R"({"status":"=success|=not_found","message":"string"})"};

void session_chat(std::shared_ptr<Call> call);    // /state/chat/completions
void list_sessions(std::shared_ptr<Call> call);   // /state/status
void delete_session(std::shared_ptr<Call> call);  // /state/delete

}  // namespace fulmar
