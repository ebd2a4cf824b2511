// User utterances or a chat, templated by the server and answered as a native batch (docs/http.md,
// "Batches").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void v3_chat(std::shared_ptr<Call> call);  // /v3/chat/completions

}  // namespace fulmar
