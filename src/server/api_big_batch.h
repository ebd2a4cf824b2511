// Very large batches with the simplest sampler (http-api.md 6.4).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void big_batch(std::shared_ptr<Call> call);  // /big_batch/completions

}  // namespace fulmar
