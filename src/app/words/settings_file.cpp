#include "app/words/settings_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "app/words/spellings.h"
#include "base/read_file.h"

namespace fulmar {

namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kMostBytes = size_t{1} << 20;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes a value from the front of the text: up to the closing quote, or to one of `ends`. Returns
// nothing if a quote is not closed.
std::optional<std::string> take_value(std::string_view& text, std::string_view ends) {
  text = trimmed(text);
  const bool quoted = text.starts_with('"') || text.starts_with('\'');
  const size_t end = quoted ? text.find(text.front(), 1) : std::min(text.find_first_of(ends), text.size());
  if (end == std::string_view::npos) return std::nullopt;
  std::string value(quoted ? text.substr(1, end - 1) : trimmed(text.substr(0, end)));
  text = trimmed(text.substr(end + (quoted ? 1 : 0)));
  return value;
}

bool at_end(std::string_view text) { return text.empty() || text.front() == '#'; }

// Returns the values after "name ="; nothing if the line has none of the forms.
std::optional<std::vector<std::string>> values_of(std::string_view text) {
  std::vector<std::string> values;
  text = trimmed(text);
  if (!text.starts_with('[')) {
    auto value = take_value(text, "#");
    if (!value || !at_end(text)) return std::nullopt;
    values.push_back(std::move(*value));
    return values;
  }
  do {
    text.remove_prefix(1);
    auto value = take_value(text, ",]#");
    if (!value || value->empty()) return std::nullopt;
    values.push_back(std::move(*value));
  } while (text.starts_with(','));
  if (!text.starts_with(']') || !at_end(trimmed(text.substr(1)))) return std::nullopt;
  return values;
}

bool is_name(std::string_view name) {
  return !name.empty() && !name.starts_with('-') &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
}

// Returns whether an option says how the words are read, and so may not be in the file.
bool of_command_line(std::string_view name) { return name == "config" || name == "as" || name == "help"; }

// Pairs of options that exclude each other: serve refuses both together.
constexpr std::pair<std::string_view, std::string_view> kEither[] = {
    {"--cache-device", "--l1-capacity"},  {"--cache-device", "--prefix-slots"},
    {"--cache-host", "--l2-capacity"},    {"--cache-host", "--prefix-host-mib"},
    {"--state-store", "--state-db-path"},
};

bool stands_for(std::string_view one, std::string_view other) {
  return one == other || std::any_of(std::begin(kEither), std::end(kEither), [&](const auto& either) {
           return either == std::pair(one, other) || either == std::pair(other, one);
         });
}

std::string_view name_of_word(std::string_view word) { return word.substr(0, word.find('=')); }

}  // namespace

std::vector<std::string> Setting::words() const {
  std::vector<std::string> words;
  for (const std::string& value : values) words.push_back(fmt::format("--{}={}", name, value));
  return words;
}

Result<std::vector<Setting>> parse_settings(std::string_view text) {
  std::vector<Setting> settings;
  for (int64_t number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (at_end(line)) continue;
    const size_t equals = std::min(line.find('='), line.size());
    Setting setting{number, std::string(trimmed(line.substr(0, equals))), {}};
    auto values = equals < line.size() ? values_of(line.substr(equals + 1)) : std::nullopt;
    if (!is_name(setting.name) || !values) {
      return Error{ErrorKind::invalid,
                   fmt::format("line {} is '{}'; wanted a line such as port = 8000", number, line)};
    }
    if (of_command_line(setting.name)) {
      return Error{ErrorKind::invalid, fmt::format("line {} is '{}'; --{} stands on the command line alone",
                                                   number, line, setting.name)};
    }
    for (const Setting& before : settings) {
      if (before.name != setting.name) continue;
      return Error{ErrorKind::invalid, fmt::format("'{}' is in line {} and line {}; wanted once",
                                                   setting.name, before.line, number)};
    }
    setting.values = std::move(*values);
    settings.push_back(std::move(setting));
  }
  return settings;
}

Result<std::vector<Setting>> read_settings(const std::string& path) {
  const auto text = read_file(path, kMostBytes);
  if (!text.ok()) return Error{text.error().kind, "--config: " + text.error().text};
  auto settings = parse_settings(*text);
  if (settings.ok()) return settings;
  return Error{settings.error().kind, fmt::format("{}: {}", path, settings.error().text)};
}

Status check_settings(const std::vector<Setting>& settings,
                      const std::function<KnownOption(std::string_view word)>& option_of) {
  std::map<std::string, const Setting*> given;
  for (const Setting& setting : settings) {
    std::vector<std::string> words = setting.words();
    words.insert(words.begin(), "serve");
    const auto today = in_todays_spellings(words);
    if (!today.ok()) continue;  // the parser says what is wrong with it
    std::map<std::string, const Setting*> own;
    for (size_t i = 1; i < today->words.size(); i++) {
      const KnownOption option = option_of(today->words[i]);
      if (option.several) continue;
      if (!own.emplace(option.name, &setting).second) {
        return Error{ErrorKind::invalid, fmt::format("line {}: '{}' has {} values; wanted one", setting.line,
                                                     setting.name, setting.values.size())};
      }
      const auto [before, fresh] = given.emplace(option.name, &setting);
      if (fresh) continue;
      return Error{ErrorKind::invalid,
                   fmt::format("'{}' in line {} and '{}' in line {} are one option; wanted one of them",
                               before->second->name, before->second->line, setting.name, setting.line)};
    }
  }
  return {};
}

std::vector<std::string> with_settings(const std::vector<std::string>& words,
                                       const std::vector<Setting>& settings) {
  const auto command =
      words.begin() + static_cast<ptrdiff_t>(std::min(place_of_command(words) + 1, words.size()));
  std::vector<std::string> all(words.begin(), command);
  const auto says = [&](const std::string& option) {
    return std::any_of(command, words.end(), [&](const std::string& word) {
      return option.starts_with('-') && stands_for(name_of_word(word), name_of_word(option));
    });
  };
  for (const Setting& setting : settings) {
    std::vector<std::string> own = setting.words();
    own.insert(own.begin(), "serve");
    const auto today = in_todays_spellings(own);
    if (today.ok() && std::any_of(today->words.begin(), today->words.end(), says)) continue;
    for (std::string& word : setting.words()) all.push_back(std::move(word));
  }
  all.insert(all.end(), command, words.end());
  return all;
}

std::string settings_path(const std::vector<std::string>& words) {
  std::string path;
  for (size_t at = place_of_command(words) + 1; at < words.size(); at++) {
    if (name_of_word(words[at]) != "--config") continue;
    if (words[at].size() > std::string_view("--config=").size()) {
      path = words[at].substr(std::string_view("--config=").size());
    } else if (words[at] == "--config" && at + 1 < words.size()) {
      path = words[at + 1];
    }
  }
  return path;
}

}  // namespace fulmar
