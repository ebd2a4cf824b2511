#include "load/completion_reader.h"

#include <algorithm>

#include "base/strip.h"
#include "net/json.h"

namespace fulmar {
namespace {

constexpr size_t kShown = 200;  // bytes of a line or body in a fault
constexpr std::string_view kPrefix = "data: ";

// Returns choices[0], or null.
const JsonValue* first_choice(const JsonValue& event) {
  const JsonValue* choices = event.find("choices");
  if (!choices || !choices->is_array() || choices->as_array().empty()) return nullptr;
  return &choices->as_array().front();
}

}  // namespace

void CompletionReader::head(int status) {
  if (status == 200) return;
  error_ = true;
  fail("HTTP " + std::to_string(status));
}

void CompletionReader::feed(std::string_view bytes, double now) {
  record_.ended_at = now;
  if (error_) {
    if (record_.fault.size() < kShown) record_.fault += " " + std::string(stripped(bytes.substr(0, kShown)));
    return;
  }
  size_t begin = 0;
  for (size_t end; (end = bytes.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    line_.append(bytes.substr(begin, end - begin));
    take_line(stripped(line_), now);
    line_.clear();
  }
  line_.append(bytes.substr(begin));
}

void CompletionReader::end(std::string_view trouble, double now) {
  if (!trouble.empty()) {
    record_.ended_at = now;
    return fail(std::string(trouble));
  }
  if (!stripped(line_).empty()) take_line(stripped(line_), now);
  if (!record_.done) fail("the stream ended without [DONE]");
}

void CompletionReader::take_line(std::string_view line, double now) {
  if (line.empty()) return;
  if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
  if (record_.done) return fail("a line after [DONE]: " + std::string(line.substr(0, kShown)));
  if (line == "[DONE]") {
    record_.done = true;
    return;
  }
  const auto event = parse_json(line);
  const JsonValue* choice = event.ok() ? first_choice(*event) : nullptr;
  const JsonValue* text = choice ? choice->find("text") : nullptr;
  if (!text || !text->is_string())
    return fail("a line without choices[0].text: " + std::string(line.substr(0, kShown)));
  if (!text->as_string().empty()) record_.text_at.push_back(now);
  const JsonValue* reason = choice->find("finish_reason");
  if (reason && reason->is_string()) record_.finish_reason = reason->as_string();
}

// Notes a fault; only the first one is kept.
void CompletionReader::fail(std::string text) {
  if (record_.fault.empty()) record_.fault = std::move(text);
}

}  // namespace fulmar
