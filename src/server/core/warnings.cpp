#include "server/core/warnings.h"

#include <algorithm>

#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kHeader = "Fulmar-Warning";
constexpr size_t kLongestHeader = 400;

// Why, only /health tells, and only to who may know it: the reason names a file.
constexpr std::string_view kSessionsInMemory =
    "sessions are kept in memory only and end with this server, since their database cannot be used";
constexpr std::string_view kResponsesInMemory =
    "responses are kept in memory only and end with this server, since their database cannot be used";

bool is_of_sessions(std::string_view path) {
  return path.starts_with("/v1/sessions") || path.starts_with("/state/") ||
         path.starts_with("/v1/admin/state/") || path.starts_with("/multi_state/") ||
         path == "/v1/advanced/multi_state";
}

}  // namespace

void add_warning_headers(Headers& headers, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::string text = warning.substr(0, kLongestHeader);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    const bool told = std::any_of(headers.begin(), headers.end(), [&](const auto& field) {
      return field.first == kHeader && field.second == text;
    });
    if (!told) headers.add(std::string(kHeader), text);
  }
}

void add_warnings(std::string& json, const std::vector<std::string>& warnings) {
  if (warnings.empty() || json.size() < 2 || json.front() != '{' || json.back() != '}') return;
  JsonWriter list;
  list.begin_array();
  for (const std::string& warning : warnings) list.value(warning);
  json.pop_back();
  if (json.back() != '{') json += ',';
  json.append("\"warnings\":").append(list.end_array().take()).append("}");
}

std::vector<std::string> warnings_of_sessions(const ServerOptions& options) {
  if (options.sessions_in_memory.empty()) return {};
  return {std::string(kSessionsInMemory)};
}

std::vector<std::string> warnings_of_route(const ServerOptions& options, std::string_view path) {
  if (is_of_sessions(path)) return warnings_of_sessions(options);
  const bool of_responses = path.starts_with("/v1/responses") && !options.responses_in_memory.empty();
  return of_responses ? std::vector{std::string(kResponsesInMemory)} : std::vector<std::string>();
}

}  // namespace fulmar
