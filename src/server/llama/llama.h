// llama.cpp's own routes: completion, infill, and rendering a chat to its prompt.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kPromptFields{
    "llama_prompt",
    {{"prompt", Takes::any(), "text, token ids, a mixture of both, or several prompts"},
     {"n_predict", Takes::integer(), "most tokens; below 0: until it ends"}}};
inline constexpr FieldTable kInfillFields{
    "llama_hole",
    {{"input_prefix", Takes::text(), "text before the hole"},
     {"input_suffix", Takes::text(), "text after it"},
     {"input_extra", Takes::list(R"([{"":"filename text"}])"), "filename and text of further files"},
     {"prompt", Takes::text(), "how the middle begins"}}};

inline constexpr JsonShape kAppliedTemplate{
    "applied_template",
    R"({"prompt":"string","template":"string","tokens":"integer","pad_zero":"boolean","stop":["string"],"warnings?":["string"]})"};

void llama_completion(std::shared_ptr<Call> call);  // POST /completion
void llama_infill(std::shared_ptr<Call> call);      // POST /infill
void apply_template(std::shared_ptr<Call> call);    // POST /apply-template

}  // namespace fulmar
