// Sessions: continuing, listing and dropping them (docs/http.md, "Sessions").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void session_chat(std::shared_ptr<Call> call);    // /state/chat/completions
void list_sessions(std::shared_ptr<Call> call);   // /state/status
void delete_session(std::shared_ptr<Call> call);  // /state/delete

}  // namespace fulmar
