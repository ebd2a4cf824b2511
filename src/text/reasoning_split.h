// Separates the thinking of a chat answer from its content while it streams. Pure; sees text only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/prompt_template.h"
#include "text/think_mode.h"

namespace fulmar {

enum class ReasoningFormat : uint8_t {
  split,        // "auto", "deepseek": thinking goes to a field of its own
  inline_text,  // "none": it stays in the content, after the opening that the prompt already has
};
std::optional<ReasoningFormat> parse_reasoning_format(std::string_view name);

// How to read one answer.
struct ReasoningMode {
  enum class Kind : uint8_t {
    content,      // no think block: all is content
    rest_of_tag,  // the prompt ends in "</think": a '>' belongs to it
    split,        // begins inside a think block
    inline_text,  // likewise, but all is content
  };
  Kind kind = Kind::content;
  std::string_view opening;  // the part of the think block that the prompt holds already; static text
  bool as_is = false;        // leading white space is part of the content
};
ReasoningMode reasoning_mode(ThinkMode think, ReasoningFormat format,
                             const PromptTemplate& chosen = world_template());

struct SplitText {
  std::string reasoning;
  std::string content;
};

// The joined results do not depend on how the text was cut. Content loses its leading white space (except
// with inline_text and as_is), reasoning the '>' and the newlines after "<think".
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(ReasoningMode mode);

  // Adds text and returns the part that is decided. Holds back what may be the beginning of
  // "</think>".
  SplitText feed(std::string_view text);
  // Returns whether the text that comes next begins inside the think block.
  bool thinking() const { return thinking_ && stage_ <= Phase::reasoning; }
  // Ends the text and returns what was held back.
  SplitText finish();

 private:
  enum class Phase : uint8_t {
    bracket,    // a '>' would end the tag
    newlines,   // between the tag and the thinking
    reasoning,  // until "</think>"
    blanks,     // before the content
    content,
  };

  void advance(SplitText& out);
  bool take_bracket();
  bool take_reasoning(SplitText& out);

  const Phase behind_;  // what follows the think block
  bool thinking_;       // what follows the first bracket is reasoning; an answer thinks once
  Phase stage_;
  std::string pending_;  // not yet decided
};

}  // namespace fulmar
