// The shared generating paths of the openai family: `messages`, `contents` or `prompt` decides
// (docs/http.md, "One path for two families"), and the list of models.
#pragma once

#include <memory>
#include <string>

#include "net/json_value.h"
#include "server/errors.h"

namespace fulmar {

class Call;

void generate_by_input(
    std::shared_ptr<Call> call);                    // /v1/chat/completions, /v1/completions and their aliases
void list_models(std::shared_ptr<Call> call);       // /v1/models
void show_model(std::shared_ptr<Call> call);        // /v1/models/{id}
void list_model_names(std::shared_ptr<Call> call);  // /models: a bare array

// Which input a body of the shared paths holds.
enum class InputKind : uint8_t { messages, contents, prompt, none, several };
InputKind input_kind(const JsonValue& body);
// Native for `contents` alone, even when it is empty.
Family family_of_input(const JsonValue& body);

}  // namespace fulmar
