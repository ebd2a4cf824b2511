// Sessions that branch: every answer is a node that can be continued more than once (docs/http.md, "Branching
// sessions").
#pragma once

#include <limits>
#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kBranchFields{
    "branch",
    {{"dialogue_idx", Takes::integer(0, std::numeric_limits<int32_t>::max()), "turn that is gone on from"}}};

void branch_chat(std::shared_ptr<Call> call);  // /multi_state/chat/completions

}  // namespace fulmar
