// llama.cpp's own routes: text to text, filling in, and what a chat becomes.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void llama_completion(std::shared_ptr<Call> call);  // POST /completion
void llama_infill(std::shared_ptr<Call> call);      // POST /infill
void apply_template(std::shared_ptr<Call> call);    // POST /apply-template

}  // namespace fulmar
