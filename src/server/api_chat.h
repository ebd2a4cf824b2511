// Chats of the openai family (http-api.md 8.3, 8.4).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void chat_on_v1(std::shared_ptr<Call> call);      // `messages` on the shared paths
void lightning_chat(std::shared_ptr<Call> call);  // /openai/v1/chat/completions

}  // namespace fulmar
