// How each keyword of JSON Schema is treated, as docs/structured-output.md says: one table, whose examples
// are compiled by a test.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fulmar {

struct SchemaWord {
  std::string_view words;  // keywords that share a row, with ", " between
  std::string_view kept;   // what of them is kept
  // What is not kept: refused by name where the schema is strict, else loosened and reported. Empty: nothing.
  std::string_view refused;
  std::string_view kept_example;     // a schema that is kept whole
  std::string_view refused_example;  // one that is not; empty with `refused`
};

std::span<const SchemaWord> schema_words();
// Returns the table in Markdown.
std::string schema_words_table();

}  // namespace fulmar
