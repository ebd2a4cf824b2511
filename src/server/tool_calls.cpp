// Finding the marks and reading what stands between them.
#include "server/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "grammar/schema_values.h"
#include "net/json.h"

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

}  // namespace

ToolCallSplitter::ToolCallSplitter(std::vector<std::string> names, bool several, const CallMarks& marks)
    : names_(std::move(names)), several_(several), marks_(marks) {}

TextAndCalls ToolCallSplitter::feed(std::string_view text) {
  pending_ += text;
  TextAndCalls out;
  while (true) {
    const size_t begin = pending_.find(marks_.open);
    if (begin == std::string::npos) {
      const size_t certain = pending_.size() - open_end(pending_, marks_.open);
      add_text(out, std::string_view(pending_).substr(0, certain));
      pending_.erase(0, certain);
      return out;
    }
    const size_t close = pending_.find(marks_.close, begin + marks_.open.size());
    if (close == std::string::npos) {
      add_text(out, std::string_view(pending_).substr(0, begin));
      pending_.erase(0, begin);
      return out;
    }
    const size_t end = close + marks_.close.size();
    add_text(out, std::string_view(pending_).substr(0, begin));
    take_block(out, std::string_view(pending_).substr(begin, end - begin));
    pending_.erase(0, end);
  }
}

TextAndCalls ToolCallSplitter::finish() {
  TextAndCalls out;
  add_text(out, pending_);
  pending_.clear();
  return out;
}

// `block`: from the opening mark to the end of the closing one.
void ToolCallSplitter::take_block(TextAndCalls& out, std::string_view block) {
  const auto value =
      parse_json(block.substr(marks_.open.size(), block.size() - marks_.open.size() - marks_.close.size()));
  const JsonValue* name = value ? value->find("name") : nullptr;
  const JsonValue* arguments = value ? value->find("arguments") : nullptr;
  const bool known =
      name && name->is_string() && std::find(names_.begin(), names_.end(), name->as_string()) != names_.end();
  if (!known || (arguments && !arguments->is_object())) return add_text(out, block);
  after_call_ = true;
  if (count_ > 0 && !several_) return;
  ++count_;
  out.calls.push_back({new_call_id(), name->as_string(), arguments ? json_text(*arguments) : "{}"});
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
