// Parts calls of functions from the text of an answer while it streams (docs/http.md, "Tool calls"). Sees
// text only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/prompt_template.h"

namespace fulmar {

// What has become certain since the last time.
struct TextAndCalls {
  std::string content;
  std::vector<ToolCall> calls;  // with fresh ids
};

// A call appears once its closing mark has been read; marks around anything but a call of a known function
// stay text. The joined result does not depend on how the text was cut.
class ToolCallSplitter {
 public:
  // `names`: the functions there are. Without `several`, calls after the first are dropped.
  ToolCallSplitter(std::vector<std::string> names, bool several, const CallMarks& marks = kTaggedCall);

  TextAndCalls feed(std::string_view text);
  // Nothing more will come: what was held back is text.
  TextAndCalls finish();
  // How many calls there have been.
  size_t count() const { return count_; }

 private:
  void take_block(TextAndCalls& out, std::string_view block);
  void add_text(TextAndCalls& out, std::string_view text);

  std::vector<std::string> names_;
  bool several_;
  CallMarks marks_;
  std::string pending_;
  size_t count_ = 0;
  bool after_call_ = false;  // blanks between calls are not content
};

}  // namespace fulmar
