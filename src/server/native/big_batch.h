// Very large batches with the simplest sampler (docs/http.md, "Batches").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void big_batch(std::shared_ptr<Call> call);  // /big_batch/completions

}  // namespace fulmar
