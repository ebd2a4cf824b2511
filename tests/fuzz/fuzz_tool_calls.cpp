// Calls of functions in an answer: what is parted from the text does not depend on how it arrives, each call
// is of a known function with an object as arguments, or the beginning of one where the answer was cut, and
// an answer without a call stays as it is.
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "net/json_prefix.h"
#include "net/model_json.h"
#include "server/generate/tool_calls.h"

namespace {

using namespace fulmar;

struct Whole {
  std::string content;
  std::vector<ToolCall> calls;
  bool last_is_cut = false;

  void add(TextAndCalls part) {
    content += part.content;
    for (ToolCall& call : part.calls) calls.push_back(std::move(call));
    last_is_cut = part.last_is_cut;
  }
};

template <class Feed>
Whole split(const ExpectedCalls& expected, FinishReason reason, Feed feed) {
  ToolCallSplitter splitter(expected);
  Whole whole;
  feed([&](std::string_view piece) { whole.add(splitter.feed(piece)); });
  whole.add(splitter.feed("", Ending{.reason = reason, .stop_id = {}, .stop_text = {}}));
  expect(splitter.count() == whole.calls.size() - (whole.last_is_cut ? 1 : 0));
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz_text(data + 1, size - 1);
  const bool several = (data[0] & 1) != 0, cut = (data[0] & 2) != 0, required = (data[0] & 4) != 0;
  const ExpectedCalls expected{.names = {"a", "add"}, .several = several, .required = required};
  const FinishReason reason = cut ? FinishReason::length : FinishReason::stop;
  const Whole once = split(expected, reason, [&](auto feed) { feed(text); });
  const Whole parts = split(expected, reason, [&](auto feed) { in_pieces(text, data[0], feed); });
  expect(once.content == parts.content && once.calls.size() == parts.calls.size());
  expect(once.last_is_cut == parts.last_is_cut);
  if (!several) expect(once.calls.size() <= 1);
  if (!cut && !required && once.calls.empty() && text.find("</tool_call>") == std::string_view::npos)
    expect(once.content == text);
  for (size_t i = 0; i < once.calls.size(); ++i) {
    const ToolCall& call = once.calls[i];
    expect(call.name == parts.calls[i].name && call.arguments == parts.calls[i].arguments);
    expect(call.name == "a" || call.name == "add");
    const bool whole = !once.last_is_cut || i + 1 < once.calls.size();
    // As a model writes them: a number of any length is passed on as it is.
    const auto arguments =
        parse_model_json(whole ? call.arguments : read_json_prefix(call.arguments).completed);
    expect(arguments.ok() && arguments->is_object());
  }
  return 0;
}
