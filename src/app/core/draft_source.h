// The model that drafts for another one (speculative decoding).
#pragma once

#include <string>

#include "app/core/model_source.h"

namespace fulmar {

// Loads the file at `path` on the first device of `drafted_for`, the model to draft for, which was loaded by
// the flags of `target`. Invalid if the two vocabularies differ, naming the first token that does.
Result<LoadedModel> load_draft_model(const ModelFlags& target, const std::string& path,
                                     const LoadedModel& drafted_for);

}  // namespace fulmar
