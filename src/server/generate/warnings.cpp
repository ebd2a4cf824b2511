#include "server/generate/warnings.h"

#include <algorithm>

#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kHeader = "Fulmar-Warning";
constexpr size_t kLongestHeader = 400;

}  // namespace

void add_warning_headers(Headers& headers, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::string text = warning.substr(0, kLongestHeader);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    headers.add(std::string(kHeader), text);
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

}  // namespace fulmar
