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
  // The reader must outlive it.
  explicit SchemaTexts(SchemaReader& reader) : reader_(reader) {}

  // What `pattern` matches, made once; `keyword` of the schema holds it. Errors: invalid, unsupported.
  Result<const TextAutomaton*> matching(const JsonValue& schema, std::string_view keyword,
                                        const std::string& pattern);
  // The strings that fit, but for their lengths; those of `values` where they are listed.
  Result<TextAutomaton> texts_of_any_length(const Shape& shape);
  // The strings that fit.
  Result<TextAutomaton> texts_of(const Shape& shape);
  // Nothing but lengths is asked of strings.
  bool plain(const Shape& shape) const;
  // One text for each way to ask for strings.
  static std::string asked_of(const Shape& shape);

 private:
  SchemaReader& reader_;
  std::map<std::string, TextAutomaton, std::less<>> patterns_;
};

// The automaton of exactly these strings.
Result<TextAutomaton> listed_texts(const std::vector<std::string_view>& texts, Budget& budget);

}  // namespace fulmar
