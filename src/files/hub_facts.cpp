#include "files/hub_facts.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/read_file.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;
namespace dom = simdjson::dom;
using Facts = std::map<std::string, std::string>;

constexpr size_t kLargestFile = size_t{16} << 20;
constexpr size_t kLargestTemplate = size_t{1} << 20;

Error wrong_type(std::string_view name, std::string_view wanted) {
  return {ErrorKind::corrupt, fmt::format("config.json: {} is not {}", name, wanted)};
}

Status read_number(dom::object config, const char* name, const char* fact, Facts& facts) {
  dom::element value;
  if (config[name].get(value) != simdjson::SUCCESS || value.is_null()) return {};
  int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS) return wrong_type(name, "a whole number");
  facts[fact] = std::to_string(number);
  return {};
}

Status read_config(dom::object config, Facts& facts) {
  dom::element value;
  std::string_view text;
  if (config.at_pointer("/architectures/0").get(text) == simdjson::SUCCESS) facts[kArchitectureFact] = text;
  if (config["_name_or_path"].get(text) == simdjson::SUCCESS && !text.empty()) facts[kNameFact] = text;
  FULMAR_TRY(read_number(config, "hidden_size", kWidthFact, facts));
  FULMAR_TRY(read_number(config, "num_hidden_layers", kLayersFact, facts));
  FULMAR_TRY(read_number(config, "vocab_size", kVocabularyFact, facts));
  if (config["embedding_layer_norm_fused"].get(value) == simdjson::SUCCESS && !value.is_null()) {
    bool fused = false;
    if (value.get(fused) != simdjson::SUCCESS)
      return wrong_type("embedding_layer_norm_fused", "true or false");
    facts[kFusedFact] = fused ? "true" : "false";
  }
  return {};
}

void read_template(const fs::path& folder, Facts& facts) {
  const Result<std::string> alone = read_file(folder / "chat_template.jinja", kLargestTemplate);
  if (alone.ok()) {
    facts[kTemplateFact] = *alone;
    return;
  }
  const Result<std::string> config = read_file(folder / "tokenizer_config.json", kLargestFile);
  if (!config.ok()) return;
  dom::parser parser;
  std::string_view text;
  const bool said = parser.parse(*config).at_key("chat_template").get(text) == simdjson::SUCCESS;
  if (said && text.size() <= kLargestTemplate) facts[kTemplateFact] = text;
}

}  // namespace

Result<Facts> read_hub_facts(const fs::path& folder) {
  Facts facts;
  read_template(folder, facts);
  const Result<std::string> text = read_file(folder / "config.json", kLargestFile);
  if (!text.ok() && text.error().kind == ErrorKind::not_found) return facts;
  if (!text.ok()) return text.error();
  dom::parser parser;
  dom::object config;
  if (parser.parse(*text).get(config) != simdjson::SUCCESS) {
    return Error{ErrorKind::corrupt, "config.json is no JSON object"};
  }
  FULMAR_TRY(read_config(config, facts));
  return facts;
}

}  // namespace fulmar
