// Reads what config.json and the chat template in a hub's repository say about the model beside them. Knows
// no weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"

namespace fulmar {

// Keys of a Checkpoint's metadata; numbers as decimal text, flags as "true" and "false".
inline constexpr const char* kArchitectureFact = "config.architecture";
inline constexpr const char* kWidthFact = "config.hidden_size";
inline constexpr const char* kLayersFact = "config.num_hidden_layers";
inline constexpr const char* kVocabularyFact = "config.vocab_size";
inline constexpr const char* kFusedFact = "config.embedding_layer_norm_fused";  // ln0 is in the embedding
inline constexpr const char* kNameFact = "config._name_or_path";
inline constexpr const char* kTemplateFact = "chat_template";  // Jinja text

// Reads config.json, chat_template.jinja, and chat_template of tokenizer_config.json in `folder`; missing
// files are ignored. Error corrupt: a config.json that is not a JSON object, or whose members of these names
// have another type; errors in the other files are ignored.
Result<std::map<std::string, std::string>> read_hub_facts(const std::filesystem::path& folder);

}  // namespace fulmar
