// Text completion from `prompt` (docs/http.md, "Completions").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void complete_text(std::shared_ptr<Call> call);

}  // namespace fulmar
