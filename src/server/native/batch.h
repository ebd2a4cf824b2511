// Batches of raw prompts in `contents` (docs/http.md, "Batches").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void contents_on_chat_path(std::shared_ptr<Call> call);  // /v1/chat/completions with `contents`
void v2_chat(std::shared_ptr<Call> call);                // /v2/chat/completions
void batch_completions(std::shared_ptr<Call> call);      // /v1/batch/completions

}  // namespace fulmar
