// Finds the marks around calls and parses what lies between them.
#include "server/generate/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

#include "grammar/schema_values.h"
#include "net/json_prefix.h"
#include "net/json_writer.h"
#include "net/model_json.h"
#include "text/stop_matcher.h"

namespace fulmar {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string new_call_id() {
  std::random_device device;
  return fmt::format("call_{:08x}{:08x}{:08x}", device(), device(), device());
}

// The beginning of a call, parsed as far as it has come: {"name":NAME,"arguments":{...
struct BegunCall {
  bool possible = false;       // it may go on as such a call
  std::string_view name;       // empty: not known yet
  std::string_view arguments;  // from the brace on
};

BegunCall read_begun_call(std::string_view text) {
  BegunCall call;
  // Returns true if the text starts with all of `words`, with blanks between; otherwise a call is still
  // possible if the text ends early.
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

// Returns the arguments of the call `json`: without blanks, but as they are written where a number of theirs
// has more digits than a JsonValue holds.
std::string text_of(const JsonValue& arguments, std::string_view json) {
  if (parse_json(json, kModelJson)) return json_text(arguments);
  const std::string_view written = read_json_prefix(read_begun_call(json).arguments).text;
  return written.empty() ? json_text(arguments) : std::string(written);
}

}  // namespace

size_t CallEnd::find(std::string_view text, std::string_view close) {
  for (; at_ < text.size(); ++at_) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (text[at_] == '\\') {
        escaped_ = true;
      } else {
        in_string_ = text[at_] != '"';
      }
      continue;
    }
    const std::string_view here = text.substr(at_, close.size());
    if (here == close) return at_;
    if (close.starts_with(here)) return std::string_view::npos;  // perhaps its beginning
    in_string_ = text[at_] == '"';
  }
  return std::string_view::npos;
}

TextAndCalls ToolCallSplitter::feed(std::string_view text, const std::optional<Ending>& ending) {
  pending_ += text;
  TextAndCalls out;
  take_whole_blocks(out);
  if (!ending) return out;
  const bool cut = expected_.required || ending->reason != FinishReason::stop;
  if (!cut || !begins_call(pending_)) {
    plain_ = pending_.size();  // a string without an end may have hidden a mark
    take_whole_blocks(out);
  }
  const std::string held = std::exchange(pending_, {});
  if (cut) {
    take_begun_block(out, held);
  } else {
    add_text(out, held);
  }
  return out;
}

// Handles all complete blocks. What remains may begin a block and starts with its opening mark.
void ToolCallSplitter::take_whole_blocks(TextAndCalls& out) {
  const auto& [open, close] = expected_.marks;
  while (true) {
    const size_t begin = pending_.find(open);
    const bool opened = begin != std::string::npos;
    const size_t certain = opened ? begin : pending_.size() - begun_at_end(pending_, open);
    add_text(out, std::string_view(pending_).substr(0, certain));
    drop(certain);
    if (!opened) return;
    const std::string_view block = pending_;
    const std::string_view inside = block.substr(open.size());
    const size_t end = plain_ > 0 ? inside.find(close) : end_.find(inside, close);
    if (end == std::string_view::npos) return;
    end_ = {};
    if (take_call(out, inside.substr(0, end))) {
      drop(open.size() + end + close.size());
    } else if (inside.find(close) < end) {
      plain_ = open.size() + end + close.size();
    } else {
      add_text(out, block.substr(0, open.size() + end + close.size()));
      drop(open.size() + end + close.size());
    }
  }
}

void ToolCallSplitter::drop(size_t bytes) {
  pending_.erase(0, bytes);
  plain_ -= std::min(plain_, bytes);
}

bool ToolCallSplitter::is_known(std::string_view name) const {
  return std::find(expected_.names.begin(), expected_.names.end(), name) != expected_.names.end();
}

// Tells whether the block, which starts with the opening mark, can still become a call of a known function.
bool ToolCallSplitter::begins_call(std::string_view block) const {
  if (!block.starts_with(expected_.marks.open)) return false;
  const BegunCall begun = read_begun_call(block.substr(expected_.marks.open.size()));
  return begun.possible && (begun.name.empty() || is_known(begun.name));
}

// Parses `json` as a call of a known function; false when it is none.
bool ToolCallSplitter::take_call(TextAndCalls& out, std::string_view json) {
  const auto value = parse_model_json(json);
  const JsonValue* name = value ? value->find("name") : nullptr;
  const JsonValue* arguments = value ? value->find("arguments") : nullptr;
  if (!name || !name->is_string() || !is_known(name->as_string()) || (arguments && !arguments->is_object())) {
    return false;
  }
  after_call_ = true;
  if (count_ > 0 && !expected_.several) return true;
  ++count_;
  out.calls.push_back({new_call_id(), name->as_string(), arguments ? text_of(*arguments, json) : "{}"});
  return true;
}

// Handles a block that was not closed when the answer ended. `block`: from the opening mark, or a beginning
// of that mark, to the end of the answer.
void ToolCallSplitter::take_begun_block(TextAndCalls& out, std::string_view block) {
  if (!block.starts_with(expected_.marks.open)) {
    if (!expected_.required) add_text(out, block);
    return;
  }
  if (!begins_call(block)) return add_text(out, block);
  const BegunCall begun = read_begun_call(block.substr(expected_.marks.open.size()));
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
