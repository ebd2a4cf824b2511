// Calls of functions in an answer: what is parted from the text does not depend on how it arrives, each call
// is of a known function with an object as arguments, and an answer without a call stays as it is.
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "net/json.h"
#include "server/tool_calls.h"

namespace {

using namespace fulmar;

struct Whole {
  std::string content;
  std::vector<ToolCall> calls;

  void add(TextAndCalls part) {
    content += part.content;
    for (ToolCall& call : part.calls) calls.push_back(std::move(call));
  }
};

template <class Feed>
Whole split(bool several, Feed feed) {
  ToolCallSplitter splitter({"a", "add"}, several);
  Whole whole;
  feed([&](std::string_view piece) { whole.add(splitter.feed(piece)); });
  whole.add(splitter.finish());
  expect(splitter.count() == whole.calls.size());
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz_text(data + 1, size - 1);
  const bool several = (data[0] & 1) != 0;
  const Whole once = split(several, [&](auto feed) { feed(text); });
  const Whole parts = split(several, [&](auto feed) { in_pieces(text, data[0], feed); });
  expect(once.content == parts.content && once.calls.size() == parts.calls.size());
  if (!several) expect(once.calls.size() <= 1);
  if (once.calls.empty() && text.find("</tool_call>") == std::string_view::npos) expect(once.content == text);
  for (size_t i = 0; i < once.calls.size(); ++i) {
    const ToolCall& call = once.calls[i];
    expect(call.name == parts.calls[i].name && call.arguments == parts.calls[i].arguments);
    expect(call.name == "a" || call.name == "add");
    const auto arguments = parse_json(call.arguments);
    expect(arguments.ok() && arguments->is_object());
  }
  return 0;
}
