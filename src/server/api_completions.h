// Text completion from `prompt` (http-api.md 8.2).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void complete_text(std::shared_ptr<Call> call);

}  // namespace fulmar
