// Tool calls (function calling): separates calls from the text of an answer while it streams (docs/http.md,
// "Tool calls"). Sees text only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/generate/writer.h"
#include "text/chat_template.h"
#include "text/prompt_template.h"

namespace fulmar {

// The calls that a request expects in its answer.
struct ExpectedCalls {
  std::vector<std::string> names = {};  // of functions; empty: text is not searched for calls
  bool several = true;                  // else calls after the first are dropped
  bool required = false;                // the answer's grammar admits nothing but calls
  CallMarks marks = kTaggedCall;        // around calls in the text
};

// The text and calls that have become certain since the last feed().
struct TextAndCalls {
  std::string content;
  std::vector<ToolCall> calls;  // with fresh ids
  bool last_is_cut =
      false;  // the answer ended within the last call: `arguments` are a beginning, perhaps empty
};

// Follows the JSON of a call to the mark that closes it: marks within its strings are part of them.
class CallEnd {
 public:
  // Returns the position of the closing mark, or npos while it has not come. `text` starts after the opening
  // mark and may have grown since the last call.
  size_t find(std::string_view text, std::string_view close);

 private:
  size_t at_ = 0;  // what is before was read
  bool in_string_ = false;
  bool escaped_ = false;
};

// A call is returned once its closing mark has been read; marks around anything but a call of a known
// function stay text. The joined result does not depend on how the text was cut into pieces.
class ToolCallSplitter {
 public:
  explicit ToolCallSplitter(ExpectedCalls expected) : expected_(std::move(expected)) {}

  // Takes more text and returns what is certain. With an ending no more will come: held-back text becomes
  // plain text, or, if the answer was cut there or must be a call, a cut call if at least its name is known,
  // else nothing.
  TextAndCalls feed(std::string_view text, const std::optional<Ending>& ending = {});
  // Returns the number of complete calls so far.
  size_t count() const { return count_; }

 private:
  void take_whole_blocks(TextAndCalls& out);
  bool take_call(TextAndCalls& out, std::string_view json);
  void take_begun_block(TextAndCalls& out, std::string_view block);
  void add_text(TextAndCalls& out, std::string_view text);
  void drop(size_t bytes);
  bool begins_call(std::string_view block) const;
  bool is_known(std::string_view name) const;

  ExpectedCalls expected_;
  std::string pending_;
  CallEnd end_;       // of the block that `pending_` begins with
  size_t plain_ = 0;  // bytes of it in which the first closing mark ends a block: they hold no such call
  size_t count_ = 0;
  bool after_call_ = false;  // blanks between calls are not content
};

}  // namespace fulmar
