// The shared generating paths of the openai family: `messages`, `contents` or `prompt` decides
// (docs/http.md, "One path for two families"), and the list of models.
#pragma once

#include <memory>
#include <string>

namespace fulmar {

class Call;

void generate_by_input(
    std::shared_ptr<Call> call);                    // /v1/chat/completions, /v1/completions and their aliases
void list_models(std::shared_ptr<Call> call);       // /v1/models
void show_model(std::shared_ptr<Call> call);        // /v1/models/{id}
void list_model_names(std::shared_ptr<Call> call);  // /models: a bare array

}  // namespace fulmar
