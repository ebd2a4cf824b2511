// Very large batches with the simplest sampler (docs/http.md, "Batches").
#pragma once

#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kNoiseFields{"noise", {{"noise", Takes::number(0, 1e6), "of the draws"}}};

void big_batch(std::shared_ptr<Call> call);  // /big_batch/completions

}  // namespace fulmar
