// Reads suites. Instances are kept as texts, because a parsed number
// loses how it was written.
#include "app/eval/schema_suite.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/read_file.h"
#include "net/json_writer.h"
#include "net/model_json.h"

extern char** environ;

namespace fulmar {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kTarBlock = 512;

// Walks the text of a valid JSON document.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) { skip_blanks(); }

  bool at_end() const { return at_ >= text_.size(); }
  bool take(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    skip_blanks();
    return true;
  }
  // Takes one value and returns its text.
  std::string_view value() {
    const size_t from = at_;
    int depth = 0;
    do {
      const std::string_view token = take_token();
      if (token == "{" || token == "[") ++depth;
      if (token == "}" || token == "]") --depth;
    } while (depth > 0 && !at_end());
    return text_.substr(from, text_.find_last_not_of(kBlanks, at_ - 1) + 1 - from);
  }
  // Takes a string, a number, a word or one mark of punctuation.
  std::string_view take_token() {
    const size_t from = at_;
    if (text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
      at_ = std::min(at_ + 1, text_.size());
    } else if (std::strchr("{}[],:", text_[at_])) {
      ++at_;
    } else {
      at_ = std::min(text_.find_first_of("{}[],: \t\r\n", at_), text_.size());
    }
    const std::string_view token = text_.substr(from, at_ - from);
    skip_blanks();
    return token;
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  std::string_view text_;
  size_t at_ = 0;
};

std::string unquoted(std::string_view token) {
  const auto parsed = parse_json(token);
  return parsed && parsed->is_string() ? parsed->as_string() : std::string();
}

// Returns the values of an object's members by name, as texts; nothing if it is no object.
std::optional<std::vector<std::pair<std::string, std::string_view>>> members_of(std::string_view json) {
  JsonText text(json);
  if (!text.take('{')) return std::nullopt;
  std::vector<std::pair<std::string, std::string_view>> members;
  while (!text.take('}')) {
    std::string name = unquoted(text.take_token());
    text.take(':');
    members.emplace_back(std::move(name), text.value());
    text.take(',');
  }
  return members;
}

// Returns whether it is JSON except for its numbers: suites hold some that no reader accepts.
bool is_json(std::string_view content) {
  std::string checked;
  for (JsonText text(content); !text.at_end();) {
    const std::string_view token = text.take_token();
    const bool number = token.find_first_of("-0123456789") == 0;
    checked += number ? "0" : token;
    checked += ' ';
  }
  return parse_json(checked, kModelJson).ok();
}

std::optional<std::vector<std::string_view>> items_of(std::string_view json) {
  JsonText text(json);
  if (!text.take('[')) return std::nullopt;
  std::vector<std::string_view> items;
  while (!text.take(']')) {
    items.push_back(text.value());
    text.take(',');
  }
  return items;
}

// Returns an object with a schema and its tests; nothing if it lacks a member. The JSON-Schema-Test-Suite has
// "description" for "id".
std::optional<SchemaCase> case_of(std::string_view json, const std::string& file) {
  const auto members = members_of(json);
  if (!members) return std::nullopt;
  SchemaCase one;
  std::optional<std::vector<std::string_view>> tests;
  for (const auto& [name, value] : *members) {
    if (name == "id") one.id = unquoted(value);
    if (name == "description" && !file.empty()) one.id = fmt::format("{}: {}", file, unquoted(value));
    if (name == "schema") one.schema = value;
    if (name == "tests") tests = items_of(value);
  }
  if (one.id.empty() || one.schema.empty() || !tests) return std::nullopt;
  for (const std::string_view test : *tests) {
    const auto parts = members_of(test);
    if (!parts) return std::nullopt;
    SchemaTest made;
    bool has_data = false;
    for (const auto& [name, value] : *parts) {
      if (name == "valid") made.valid = value == "true";
      if (name != "data") continue;
      made.compact = with_separators(value, ",", ":");
      made.spaced = with_separators(value, ", ", ": ");
      has_data = true;
    }
    if (!has_data) return std::nullopt;
    one.tests.push_back(std::move(made));
  }
  return one;
}

Status add_lines(std::string_view content, const std::string& name, std::vector<SchemaCase>& cases) {
  size_t number = 0;
  for (size_t at = 0; at < content.size();) {
    const size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line = content.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(kBlanks) == std::string_view::npos) continue;
    auto one = is_json(line) ? case_of(line, {}) : std::nullopt;
    if (!one) {
      return Error{ErrorKind::corrupt, fmt::format("'{}' line {}: wanted {{\"id\",\"schema\",\"tests\":"
                                                   "[{{\"valid\",\"data\"}}]}}",
                                                   name, number)};
    }
    cases.push_back(std::move(*one));
  }
  return {};
}

// Adds the groups of a JSON file, each a schema with its tests.
Status add_groups(std::string_view content, const std::string& file, std::vector<SchemaCase>& cases) {
  const auto groups = is_json(content) ? items_of(content) : std::nullopt;
  const Error error{ErrorKind::corrupt,
                    fmt::format("'{}': wanted an array of {{\"description\",\"schema\",\"tests\"}}", file)};
  if (!groups) return error;
  for (const std::string_view group : *groups) {
    auto one = case_of(group, file);
    if (!one) return error;
    cases.push_back(std::move(*one));
  }
  return {};
}

bool is_tar(std::string_view content) {
  return content.size() >= kTarBlock && content.substr(257, 5) == "ustar";
}

Status add_archive(std::string_view content, const std::string& name, std::vector<SchemaCase>& cases) {
  for (size_t at = 0; at + kTarBlock <= content.size() && content[at] != '\0';) {
    const std::string_view header = content.substr(at, kTarBlock);
    const std::string path(header.substr(0, std::min<size_t>(header.find('\0'), 100)));
    size_t bytes = 0;
    const std::string_view octal = header.substr(124, 11);
    const auto read = std::from_chars(octal.data(), octal.data() + octal.size(), bytes, 8);
    at += kTarBlock;
    if (read.ec != std::errc() || bytes > content.size() - at) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}': the archive ends within '{}' of {} bytes", name, path, bytes)};
    }
    if (path.ends_with(".json")) {
      const size_t folder = path.find("/draft");
      const size_t from = folder == std::string::npos ? std::string::npos : path.find('/', folder + 1);
      FULMAR_TRY(add_groups(content.substr(at, bytes), path.substr(from == std::string::npos ? 0 : from + 1),
                            cases));
    }
    at += (bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  return {};
}

Result<std::string> unpacked(const std::string& path) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return Error{ErrorKind::io, fmt::format("no pipe: {}", std::strerror(errno))};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::array<std::string, 4> words = {"xz", "-dc", "--", path};
  std::array<char*, 5> arguments = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                                    nullptr};
  pid_t child = -1;
  const int failed = posix_spawnp(&child, "xz", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string content;
  std::array<char, 1 << 16> chunk;
  // Closing the end early ends the program, too.
  for (ssize_t got = 0; failed == 0 && content.size() <= kMostFileBytes &&
                        (got = read(ends[0], chunk.data(), chunk.size())) > 0;) {
    content.append(chunk.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (failed == 0) waitpid(child, &status, 0);
  if (failed != 0 || status != 0) {
    return Error{ErrorKind::io, fmt::format("'{}' cannot be unpacked by the program xz{}", path,
                                            failed != 0 ? fmt::format(": {}", std::strerror(failed)) : "")};
  }
  return content;
}

}  // namespace

std::string with_separators(std::string_view json, std::string_view comma, std::string_view colon) {
  std::string out;
  for (JsonText text(json); !text.at_end();) {
    const std::string_view token = text.take_token();
    if (token == ",") {
      out += comma;
    } else if (token == ":") {
      out += colon;
    } else if (token.front() == '"') {
      out += json_quoted(unquoted(token));
    } else {
      out += token;
    }
  }
  return out;
}

Result<std::vector<SchemaCase>> parse_schema_suite(std::string_view content, const std::string& name) {
  std::vector<SchemaCase> cases;
  FULMAR_TRY(is_tar(content) ? add_archive(content, name, cases) : add_lines(content, name, cases));
  if (cases.empty()) return Error{ErrorKind::corrupt, fmt::format("'{}' has no schemas", name)};
  return cases;
}

Result<std::vector<SchemaCase>> read_schema_suite(const std::string& path) {
  FULMAR_ASSIGN(std::string content, read_file(path, kMostFileBytes));
  if (path.ends_with(".xz")) {
    FULMAR_ASSIGN(content, unpacked(path));
  }
  return parse_schema_suite(content, path);
}

std::vector<SchemaCase> sample_of(std::vector<SchemaCase> cases, size_t count) {
  if (count >= cases.size()) return cases;
  std::vector<SchemaCase> sample;
  for (size_t i = 0; i < count; ++i) sample.push_back(std::move(cases[i * cases.size() / count]));
  return sample;
}

std::string part_of(std::string_view id) {
  if (const size_t dashes = id.find("---"); dashes != std::string_view::npos) {
    return std::string(id.substr(0, dashes));
  }
  if (const size_t colon = id.find(": "); colon != std::string_view::npos) {
    const size_t slash = id.rfind('/', colon);
    return slash == std::string_view::npos ? "required" : std::string(id.substr(0, slash));
  }
  return std::string(id.substr(0, id.find('_')));
}

}  // namespace fulmar
