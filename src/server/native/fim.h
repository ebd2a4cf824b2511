// Batches of fill-in-the-middle prompts (docs/http.md, "Batches").
#pragma once

#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kHoleFields{
    "holes",
    {{"prefix", Takes::texts(), "texts before the holes"}, {"suffix", Takes::texts(), "texts after them"}}};

void fill_in_the_middle(std::shared_ptr<Call> call);  // /FIM/v1/batch-FIM

}  // namespace fulmar
