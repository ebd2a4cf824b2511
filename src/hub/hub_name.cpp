#include "hub/hub_name.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "text/locate_vocabulary.h"

namespace fulmar {
namespace {

constexpr size_t kLongestName = 96, kLongestPath = 512;
constexpr std::string_view kHostPrefix = "hf.co/";  // as Ollama's clients name models of hubs

bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_plain_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName || !is_letter_or_digit(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; });
}

Error no_hub_name(std::string_view text) {
  return {ErrorKind::invalid,
          "'" + std::string(text) +
              "' names no model of a hub; wanted OWNER/NAME or OWNER/NAME:FILE of letters, "
              "digits and -._"};
}

Error no_local_name(std::string_view as) {
  return {ErrorKind::invalid, "--as is '" + std::string(as) + "'; wanted a name of letters, digits and -._"};
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath) return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\') return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end == begin || path[begin] == '.') return false;
    begin = end + 1;
  }
  return true;
}

Result<HubName> parse_hub_name(std::string_view text) {
  if (text.starts_with(kHostPrefix)) text.remove_prefix(kHostPrefix.size());
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view repository = text.substr(0, colon);
  const size_t slash = repository.find('/');
  if (slash == std::string_view::npos) return no_hub_name(text);
  HubName hub{.owner = std::string(repository.substr(0, slash)),
              .name = std::string(repository.substr(slash + 1))};
  if (!is_plain_name(hub.owner) || !is_plain_name(hub.name)) return no_hub_name(text);
  if (colon == text.size()) return hub;
  hub.file = text.substr(colon + 1);
  if (is_safe_path(hub.file)) return hub;
  return Error{ErrorKind::invalid, "'" + hub.file + "' is no path inside a repository"};
}

Result<std::string> local_model_name(const HubName& hub, std::string_view file, std::string_view as) {
  const std::filesystem::path own = std::filesystem::path(file).filename();
  if (!as.empty()) {
    if (is_plain_name(as)) return std::string(as) + own.extension().string();
    return no_local_name(as);
  }
  const std::string stem = own.stem().string();
  if (stem == "model" || stem == "pytorch_model") return hub.name + own.extension().string();
  return own.string();
}

Result<std::string> local_folder_name(const HubName& hub, std::string_view as) {
  if (as.empty()) return hub.name;
  if (is_plain_name(as)) return std::string(as);
  return no_local_name(as);
}

std::string local_vocabulary_name(std::string_view vocabulary_file, std::string_view local_model) {
  const std::string own = std::filesystem::path(vocabulary_file).filename().string();
  if (own == kWorldFileName) return own;
  return std::filesystem::path(local_model).stem().string() + ".vocab.txt";
}

}  // namespace fulmar
