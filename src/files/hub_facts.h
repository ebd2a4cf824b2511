// What the small files of a hub's repository say of the model beside them: config.json and the chat template.
// Knows no weights.
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
inline constexpr const char* kFusedFact = "config.embedding_layer_norm_fused";  // ln0 lies in the embedding
inline constexpr const char* kNameFact = "config._name_or_path";
inline constexpr const char* kTemplateFact = "chat_template";  // Jinja text

// Those that the files in `folder` have: config.json, chat_template.jinja, and chat_template of
// tokenizer_config.json. Files that are not there say nothing. corrupt for a config.json that is no JSON
// object, or whose members of these names have another type; the other files only lose what they say.
Result<std::map<std::string, std::string>> read_hub_facts(const std::filesystem::path& folder);

}  // namespace fulmar
