// Ollama's API: chats, completions, embeddings, and routes about models.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

// Of the messages of a chat. Earlier thinking is not fed again.
inline constexpr std::string_view kOllamaMessageMembers =
    R"([{"":"role content tool_name images ~thinking",)"
    R"("tool_calls":[{"":"id type","function":{"":"name arguments index"}}]}])";

inline constexpr FieldTable kOllamaFields{
    "ollama",
    {{"model", Takes::text(), "with or without a tag \":latest\""},
     {"name", Takes::text(), "as model"},
     {"stream", Takes::boolean(), "lines of JSON", "true"},
     {"state_id", Takes::any(), "tuned state that the answer starts from"},
     {"chat_template_kwargs", Takes::any(R"({"":"enable_thinking"})"),
      "enable_thinking: whether the model thinks first"},
     {"think", Takes::any(), "true, false, or low, medium, high"},
     {"options", Takes::object("any"),
      "num_predict, temperature, top_k, top_p, min_p, seed, stop, penalties"}}};
inline constexpr FieldTable kOllamaChatFields{
    "ollama_chat", {{"messages", Takes::list(kOllamaMessageMembers), "role, content, tool_calls"}}};
inline constexpr FieldTable kOllamaGenerateFields{
    "ollama_prompt",
    {{"prompt", Takes::text(), "what the user says"},
     {"suffix", Takes::text(), "what follows the hole that the model fills"},
     {"system", Takes::text(), "system text"},
     {"raw", Takes::boolean(), "the prompt as it is, without a template", "false"}}};
inline constexpr FieldTable kOllamaNameFields{
    "ollama_model", {{"model", Takes::text(), "its name"}, {"name", Takes::text(), "as model"}}};
inline constexpr FieldTable kOllamaPullFields{"ollama_pull",
                                              {{"model", Takes::text(), "OWNER/NAME or OWNER/NAME:FILE"},
                                               {"name", Takes::text(), "as model"},
                                               {"stream", Takes::boolean(), "lines on how it goes", "true"}}};

inline constexpr JsonShape kOllamaDetails{
    "ollama.details", R"({"parent_model":"string","format":"string","family":"string","families":["string"],)"
                      R"("parameter_size":"string","quantization_level":"string"})"};
inline constexpr JsonShape kOllamaModels{
    "ollama.models",
    R"({"models":[{"name":"string","model":"string","size":"integer","digest":"string",)"
    R"("details":"@ollama.details","modified_at?":"string","expires_at?":"string",)"
    R"("size_vram?":"integer"}]})",
    &kOllamaDetails};
inline constexpr JsonShape kOllamaModel{
    "ollama.model",
    R"({"modelfile":"string","parameters":"string","template":"string","details":"@ollama.details",)"
    R"("model_info":{"*":"string|integer"},"capabilities":["string"],"modified_at":"string","warnings?":["string"]})",
    &kOllamaDetails};
inline constexpr JsonShape kOllamaVersion{"ollama.version", R"({"version":"string"})"};
// Both of the whole answer and of each line of a stream.
inline constexpr JsonShape kOllamaPull{
    "ollama.pull",
    R"({"status":"string","model?":"string","digest?":"string","total?":"integer","completed?":"integer"})"};

void ollama_chat(std::shared_ptr<Call> call);      // POST /api/chat
void ollama_generate(std::shared_ptr<Call> call);  // POST /api/generate

void ollama_version(std::shared_ptr<Call> call);  // GET /api/version
void ollama_tags(std::shared_ptr<Call> call);     // GET /api/tags
void ollama_running(std::shared_ptr<Call> call);  // GET /api/ps
void ollama_show(std::shared_ptr<Call> call);     // POST /api/show
void ollama_pull(std::shared_ptr<Call> call);     // POST /api/pull

}  // namespace fulmar
