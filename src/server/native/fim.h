// Batches of fill-in-the-middle prompts (docs/http.md, "Batches").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void fill_in_the_middle(std::shared_ptr<Call> call);  // /FIM/v1/batch-FIM

}  // namespace fulmar
