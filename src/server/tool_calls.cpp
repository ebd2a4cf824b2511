// Finding the marks and reading what stands between them.
#include "server/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

#include "grammar/schema_values.h"
#include "net/json.h"
#include "net/json_prefix.h"

namespace fulmar {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// How many bytes at the end of `text` may be the beginning of the opening mark.
size_t open_end(std::string_view text, std::string_view open) {
  for (size_t length = std::min(text.size(), open.size() - 1); length > 0; --length) {
    if (text.ends_with(open.substr(0, length))) return length;
  }
  return 0;
}

std::string new_call_id() {
  std::random_device device;
  return fmt::format("call_{:08x}{:08x}{:08x}", device(), device(), device());
}

// As much of {"name":NAME,"arguments":{... as there is.
struct BegunCall {
  bool possible = false;       // it may go on as such a call
  std::string_view name;       // empty: not known yet
  std::string_view arguments;  // from the brace on
};

BegunCall read_begun_call(std::string_view text) {
  BegunCall call;
  // True where all of `words` stand in front, with blanks between; else it is possible if the text ends
  // early.
  const auto take = [&](std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words) {
      text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
      if (!text.starts_with(word)) {
        call.possible = word.starts_with(text);
        return false;
      }
      text.remove_prefix(word.size());
    }
    return true;
  };
  if (!take({"{", "\"name\"", ":", "\""})) return call;
  const size_t quote = text.find('"');
  call.possible = quote == std::string_view::npos;
  if (call.possible) return call;
  call.name = text.substr(0, quote);
  text.remove_prefix(quote + 1);
  if (!take({",", "\"arguments\"", ":"})) return call;
  const std::string_view from_brace = text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
  call.possible = from_brace.empty() || from_brace.front() == '{';
  call.arguments = from_brace;
  return call;
}

}  // namespace

TextAndCalls ToolCallSplitter::feed(std::string_view text, const std::optional<Ending>& ending) {
  pending_ += text;
  const CallMarks& marks = expected_.marks;
  TextAndCalls out;
  while (true) {
    const size_t begin = pending_.find(marks.open);
    const bool opened = begin != std::string::npos;
    const size_t certain = opened ? begin : pending_.size() - open_end(pending_, marks.open);
    add_text(out, std::string_view(pending_).substr(0, certain));
    pending_.erase(0, certain);
    const size_t close = opened ? pending_.find(marks.close, marks.open.size()) : std::string::npos;
    if (close == std::string::npos) break;
    const size_t end = close + marks.close.size();
    take_block(out, std::string_view(pending_).substr(0, end));
    pending_.erase(0, end);
  }
  if (!ending) return out;
  const std::string held = std::exchange(pending_, {});
  if (expected_.required || ending->reason != FinishReason::stop) {
    take_begun_block(out, held);
  } else {
    add_text(out, held);
  }
  return out;
}

bool ToolCallSplitter::is_known(std::string_view name) const {
  return std::find(expected_.names.begin(), expected_.names.end(), name) != expected_.names.end();
}

// `block`: from the opening mark to the end of the closing one.
void ToolCallSplitter::take_block(TextAndCalls& out, std::string_view block) {
  const CallMarks& marks = expected_.marks;
  const auto value =
      parse_json(block.substr(marks.open.size(), block.size() - marks.open.size() - marks.close.size()));
  const JsonValue* name = value ? value->find("name") : nullptr;
  const JsonValue* arguments = value ? value->find("arguments") : nullptr;
  if (!name || !name->is_string() || !is_known(name->as_string()) || (arguments && !arguments->is_object())) {
    return add_text(out, block);
  }
  after_call_ = true;
  if (count_ > 0 && !expected_.several) return;
  ++count_;
  out.calls.push_back({new_call_id(), name->as_string(), arguments ? json_text(*arguments) : "{}"});
}

// `block`: from the opening mark, or a beginning of it, to the end of the answer.
void ToolCallSplitter::take_begun_block(TextAndCalls& out, std::string_view block) {
  if (!block.starts_with(expected_.marks.open)) {
    if (!expected_.required) add_text(out, block);
    return;
  }
  const BegunCall begun = read_begun_call(block.substr(expected_.marks.open.size()));
  const bool other = !begun.name.empty() && !is_known(begun.name);
  if (!begun.possible || other) return add_text(out, block);
  if (begun.name.empty() || (count_ > 0 && !expected_.several)) return;
  const JsonPrefix arguments = read_json_prefix(begun.arguments);
  const bool broken = arguments.closed && arguments.completed != arguments.text;
  if (broken) return add_text(out, block);
  out.last_is_cut = !arguments.closed;
  if (arguments.closed) ++count_;
  out.calls.push_back({new_call_id(), std::string(begun.name), std::string(arguments.text)});
}

void ToolCallSplitter::add_text(TextAndCalls& out, std::string_view text) {
  if (after_call_) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return;
    after_call_ = false;
  }
  out.content += text;
}

}  // namespace fulmar
