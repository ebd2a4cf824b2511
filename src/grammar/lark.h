// Reads Lark, another format for grammars, in the subset that GBNF can express: `start: "yes" | "no"`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/syntax.h"

namespace fulmar {

// Parses rules and terminals over lines, // and # comments, "texts" (with i: either case), "a".."z",
// /patterns/ (as parse_pattern, without flags), groups, [optional], '|', * + ? ~n ~n..m {n,m}, aliases (->
// name, which have no effect here), priorities, %ignore, and %import of common terminals. The root is the
// rule `start`. Errors: invalid, with the line and what was wanted; unsupported, for templates and other
// directives.
Result<Syntax> parse_lark(std::string_view text);

}  // namespace fulmar
