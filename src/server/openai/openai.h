// The shared generating paths of the openai family, where `messages`, `contents` or `prompt` decides
// (docs/http.md, "One path for two families"), and the list of models.
#pragma once

#include <memory>
#include <string>

#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr JsonShape kModel{
    "model",
    R"({"id":"string","object":"=model","created":"integer","owned_by":"string","root?":"string","parent?":"string"})"};
inline constexpr JsonShape kModelList{
    "model.list", R"({"object":"=list","data":["@model"],"loaded?":"string|null","available?":["string"]})",
    &kModel};
// What clients get that name the version of Anthropic's API.
inline constexpr JsonShape kAnthropicModelList{
    "model.list.anthropic",
    R"({"data":[{"type":"=model","id":"string","display_name":"string","created_at":"string"}],)"
    R"("has_more":"boolean","first_id":"string|null","last_id":"string|null"})"};
inline constexpr JsonShape kModelNames{"model.names", R"([{"object":"=models","id":"string"}])"};

void chat_by_input(std::shared_ptr<Call> call);      // /v1/chat/completions, /chat/completions
void complete_by_input(std::shared_ptr<Call> call);  // /v1/completions, /completions
void list_models(std::shared_ptr<Call> call);        // /v1/models
void show_model(std::shared_ptr<Call> call);         // /v1/models/{id}
void list_model_names(std::shared_ptr<Call> call);   // /models: a bare array

}  // namespace fulmar
