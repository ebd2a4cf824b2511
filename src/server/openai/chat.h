// Chats of the openai family (docs/http.md, "Chats").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void chat_on_v1(std::shared_ptr<Call> call);      // `messages` on the shared paths
void lightning_chat(std::shared_ptr<Call> call);  // /openai/v1/chat/completions

}  // namespace fulmar
