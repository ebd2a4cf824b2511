// Sessions that branch: every answer is a node that can be continued more than once (docs/http.md, "Branching
// sessions").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void branch_chat(std::shared_ptr<Call> call);  // /multi_state/chat/completions

}  // namespace fulmar
