// Anthropic's Messages API: its requests in the server's own words, its answers by MessagesWriter.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void create_message(std::shared_ptr<Call> call);        // POST /v1/messages
void count_message_tokens(std::shared_ptr<Call> call);  // POST /v1/messages/count_tokens

}  // namespace fulmar
