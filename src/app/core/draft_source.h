// The model that drafts for another one (speculative decoding).
#pragma once

#include <string>

#include "app/core/model_source.h"

namespace fulmar {

// Loads the file at `path` on the first device of the model that it is to draft for, which was loaded by the
// flags of `target`. Invalid where the two vocabularies differ, naming the first token that does.
Result<LoadedModel> load_draft_model(const ModelFlags& target, const std::string& path,
                                     const LoadedModel& drafted_for);

}  // namespace fulmar
