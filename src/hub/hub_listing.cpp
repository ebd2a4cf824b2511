#include "hub/hub_listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

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
  // Tuned states are weights of nothing.
  return (ending == ".pth" || ending == ".safetensors" || ending == ".st") && !path.ends_with(".state.pth");
}

bool looks_like_vocabulary(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.ends_with(".txt") && name.find("vocab") != std::string::npos;
}

std::string listed(const std::vector<HubFile>& files) {
  std::string text;
  for (const HubFile& file : files) {
    if (ends_like_weights(file.path))
      text += fmt::format("\n  {}  {:.1f} MB", file.path, static_cast<double>(file.size) / 1e6);
  }
  return text;
}

// Of the model's own name, the World vocabulary, or the only one there.
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
  const HubFile* model = nullptr;
  int candidates = 0;
  for (const HubFile& file : files) {
    if (hub.file.empty() ? !ends_like_weights(file.path) : file.path != hub.file) continue;
    model = &file;
    candidates++;
  }
  const std::string repository = hub.owner + "/" + hub.name;
  if (candidates == 0) {
    const std::string wanted = hub.file.empty() ? "no .pth, .safetensors or .st" : "no '" + hub.file + "'";
    const std::string there = listed(files);
    return Error{ErrorKind::not_found,
                 repository + " has " + wanted + (there.empty() ? std::string() : "; it has" + there)};
  }
  if (candidates > 1) {
    return Error{ErrorKind::invalid, fmt::format("{} has several models; choose one with {}:FILE{}",
                                                 repository, repository, listed(files))};
  }
  PullPlan plan{.model = *model};
  if (const HubFile* vocabulary = vocabulary_for(*model, files)) plan.vocabularies.push_back(*vocabulary);
  return plan;
}

}  // namespace fulmar
