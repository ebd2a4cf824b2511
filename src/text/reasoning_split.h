// Parts the thinking of a chat answer from its content while it streams. Pure; sees text only.
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
  inline_text,  // "none": it stays in the content, with the opening that the prompt holds put back in front
};
std::optional<ReasoningFormat> parse_reasoning_format(std::string_view name);

// How one answer is to be read.
struct ReasoningMode {
  enum class Kind : uint8_t {
    content,      // no think block: all is content
    rest_of_tag,  // the prompt ends in "</think": a '>' belongs to it
    split,        // begins inside a think block
    inline_text,  // likewise, but all is content
  };
  Kind kind = Kind::content;
  std::string_view opening;  // the part of the think block that the prompt holds already; static text
  bool as_is = false;        // blanks that content begins with are part of it
};
ReasoningMode reasoning_mode(ThinkMode think, ReasoningFormat format,
                             const PromptTemplate& chosen = world_template());

struct SplitText {
  std::string reasoning;
  std::string content;
};

// The joined answers do not depend on how the text was cut. Content loses its leading blanks (except
// inline_text and where it is wanted as it is), reasoning the '>' and the newlines after "<think".
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(ReasoningMode mode);

  // Adds text and returns what can be told apart by now. What may be the beginning of "</think>" is held
  // back.
  SplitText feed(std::string_view text);
  // Whether the text that comes next begins inside the think block.
  bool thinking() const { return thinking_ && stage_ <= Phase::reasoning; }
  // Nothing more will come: returns what was held back.
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

  const Phase behind_;  // of what comes behind the think block
  bool thinking_;       // what follows the first bracket is reasoning; an answer thinks once
  Phase stage_;
  std::string pending_;  // not yet told apart
};

}  // namespace fulmar
