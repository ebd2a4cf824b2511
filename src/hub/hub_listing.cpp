#include "hub/hub_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "net/json.h"
#include "text/locate_vocabulary.h"

namespace fulmar {
namespace {

constexpr size_t kSha256Digits = 64, kSha1Digits = 40;

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Result<HubFile> parse_entry(const JsonValue& entry) {
  HubFile file;
  FULMAR_ASSIGN(const auto path, get_string(entry, "path"));
  FULMAR_ASSIGN(auto size, get_int(entry, "size", 0));
  FULMAR_ASSIGN(const auto blob, get_string(entry, "oid"));
  file.path = path.value_or("");
  if (blob && is_hex(*blob, kSha1Digits)) file.checksum = {Checksum::Kind::git_blob, *blob};
  if (const JsonValue* large = entry.find("lfs"); large && large->is_object()) {
    FULMAR_ASSIGN(const auto digest, get_string(*large, "oid"));
    FULMAR_ASSIGN(const auto large_size, get_int(*large, "size", 0));
    file.checksum = {};  // the blob is only a pointer then
    if (digest && is_hex(*digest, kSha256Digits)) file.checksum = {Checksum::Kind::sha256, *digest};
    if (large_size) size = large_size;
  }
  file.size = size.value_or(-1);
  return file;
}

bool ends_like_weights(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  constexpr std::string_view kWeights[] = {".pth", ".safetensors", ".st", ".gguf", ".rwkvq"};
  const bool weights = std::find(std::begin(kWeights), std::end(kWeights), ending) != std::end(kWeights);
  return weights && !path.ends_with(".state.pth");  // tuned states are weights of nothing
}

bool looks_like_vocabulary(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.ends_with(".txt") && name.find("vocab") != std::string::npos;
}

// Returns "<stem>-of-00003" for the shard "<stem>-00002-of-00003.safetensors"; empty for other names.
std::string shard_set(const std::string& path) {
  static const std::regex kShard(R"(([^/]+)-\d{5}(-of-\d{5})\.safetensors)");
  std::smatch parts;
  if (!std::regex_match(path, parts, kShard)) return {};
  return parts[1].str() + parts[2].str();
}

// Returns whether a small file at the top of a repository belongs to its model: needed, or about chatting.
bool belongs_to_model(const std::string& path) {
  static const std::set<std::string> kNames = {
      "config.json",           "generation_config.json", "tokenizer.json",         "chat_template.jinja",
      "tokenizer_config.json", "added_tokens.json",      "special_tokens_map.json"};
  if (path.find('/') != std::string::npos) return false;
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool vocabulary = (ending == ".txt" || ending == ".json") && path.find("vocab") != std::string::npos;
  return kNames.contains(path) || vocabulary || path.ends_with(".safetensors.index.json");
}

// One model that a repository offers: a file, or one made of several.
struct Offer {
  std::string title;  // for errors, and what OWNER/NAME:FILE may say
  std::vector<const HubFile*> weights;
  bool repository = false;
};

std::vector<Offer> offers_of(const std::vector<HubFile>& files) {
  const bool configured =
      std::any_of(files.begin(), files.end(), [](const HubFile& file) { return file.path == "config.json"; });
  std::vector<Offer> offers;
  std::map<std::string, size_t> sets;  // offers by their set of shards
  for (const HubFile& file : files) {
    if (!ends_like_weights(file.path)) continue;
    const std::string set = shard_set(file.path);
    if (set.empty()) {
      offers.push_back({file.path, {&file}, configured && file.path == "model.safetensors"});
      continue;
    }
    const auto [known, fresh] = sets.emplace(set, offers.size());
    if (fresh) offers.push_back({file.path, {}, true});
    offers[known->second].weights.push_back(&file);
  }
  return offers;
}

// Returns whether OWNER/NAME:FILE means this offer: any of its files, or its index.
bool is_meant(const Offer& offer, const std::string& file) {
  if (offer.repository && file.ends_with(".safetensors.index.json")) return true;
  return std::any_of(offer.weights.begin(), offer.weights.end(),
                     [&](const HubFile* one) { return one->path == file; });
}

std::string listed(const std::vector<HubFile>& files) {
  std::string text;
  for (const HubFile& file : files) {
    if (ends_like_weights(file.path))
      text += fmt::format("\n  {}  {:.1f} MB", file.path, static_cast<double>(file.size) / 1e6);
  }
  return text;
}

// Returns the vocabulary with the model's own name, the World vocabulary, or the only one there.
const HubFile* vocabulary_for(const HubFile& model, const std::vector<HubFile>& files) {
  const std::string own = std::filesystem::path(model.path).stem().string() + ".vocab.txt";
  const HubFile* found = nullptr;
  int candidates = 0;
  for (const HubFile& file : files) {
    const std::string name = std::filesystem::path(file.path).filename().string();
    if (name == own || name == kWorldFileName) return &file;
    if (!looks_like_vocabulary(file.path)) continue;
    found = &file;
    candidates++;
  }
  return candidates == 1 ? found : nullptr;
}

}  // namespace

Result<std::vector<HubFile>> parse_listing(const std::string& json) {
  FULMAR_ASSIGN(const JsonValue document, parse_json(json));
  if (!document.is_array()) {
    return Error{ErrorKind::corrupt,
                 "the hub's list of files is " + describe(document) + "; wanted an array"};
  }
  std::vector<HubFile> files;
  for (const JsonValue& entry : document.as_array()) {
    FULMAR_ASSIGN(const auto type, get_string(entry, "type"));
    if (type.value_or("file") != "file") continue;
    FULMAR_ASSIGN(HubFile file, parse_entry(entry));
    if (is_safe_path(file.path)) files.push_back(std::move(file));
  }
  return files;
}

std::string next_page(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<'), close = link.find('>', open);
    if (close == std::string_view::npos) break;
    const std::string_view address = link.substr(open + 1, close - open - 1);
    link.remove_prefix(close + 1);
    const std::string_view parameters = link.substr(0, link.find('<'));
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(address);
    }
  }
  return {};
}

Result<PullPlan> choose_files(const HubName& hub, const std::vector<HubFile>& files) {
  std::vector<Offer> offers = offers_of(files);
  if (!hub.file.empty())
    std::erase_if(offers, [&](const Offer& offer) { return !is_meant(offer, hub.file); });
  const std::string repository = hub.owner + "/" + hub.name;
  const auto named = [&](const HubFile& file) { return file.path == hub.file; };
  const auto asked = std::find_if(files.begin(), files.end(), named);
  if (offers.empty() && asked != files.end()) offers.push_back({asked->path, {&*asked}});
  if (offers.empty()) {
    const std::string wanted =
        hub.file.empty() ? "no .pth, .safetensors, .st, .gguf or .rwkvq" : "no '" + hub.file + "'";
    const std::string there = listed(files);
    return Error{ErrorKind::not_found,
                 repository + " has " + wanted + (there.empty() ? std::string() : "; it has" + there)};
  }
  if (offers.size() > 1) {
    return Error{ErrorKind::invalid, fmt::format("{} has several models; choose one with {}:FILE{}",
                                                 repository, repository, listed(files))};
  }
  PullPlan plan;
  const Offer& offer = offers.front();
  if (offer.repository) {
    std::copy_if(files.begin(), files.end(), std::back_inserter(plan.repository),
                 [](const HubFile& file) { return belongs_to_model(file.path); });
    for (const HubFile* file : offer.weights) plan.repository.push_back(*file);
    return plan;
  }
  plan.model = *offer.weights.front();
  if (const HubFile* vocabulary = vocabulary_for(plan.model, files)) plan.vocabularies.push_back(*vocabulary);
  return plan;
}

}  // namespace fulmar
