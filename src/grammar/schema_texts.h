// The strings of a shape as an automaton: patterns, formats, lengths and listed strings.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/schema_shape.h"
#include "grammar/text_automaton.h"

namespace fulmar {

class SchemaTexts {
 public:
  // Makes texts with a reader, which must outlive this.
  explicit SchemaTexts(SchemaReader& reader) : reader_(reader) {}

  // Returns what `pattern`, from `keyword` of the schema, matches; made once. Errors: invalid, unsupported.
  Result<const TextAutomaton*> matching(const JsonValue& schema, std::string_view keyword,
                                        const std::string& pattern);
  // Returns the strings that fit, ignoring lengths; those of `values` where they are listed.
  Result<TextAutomaton> texts_of_any_length(const Shape& shape);
  // Returns the strings that fit.
  Result<TextAutomaton> texts_of(const Shape& shape);
  // Returns whether only lengths are demanded of strings.
  bool plain(const Shape& shape) const;
  // Returns a text that is equal for shapes with equal demands on strings.
  static std::string asked_of(const Shape& shape);

 private:
  SchemaReader& reader_;
  std::map<std::string, TextAutomaton, std::less<>> patterns_;
};

// Returns the automaton of exactly these strings.
Result<TextAutomaton> listed_texts(const std::vector<std::string_view>& texts, Budget& budget);

}  // namespace fulmar
