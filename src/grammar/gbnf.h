// GBNF, llama.cpp's form of a grammar: `root ::= "yes" | "no"`.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/syntax.h"

namespace fulmar {

// Parses rules over lines, # comments, "texts" and [classes] with their escapes (\n \r \t \\ \" \[ \] \xHH
// \uHHHH \UHHHHHHHH), '.', groups, '|', and * + ? {n} {n,} {n,m}; the root is the rule `root`. Errors:
// invalid, with the line and what was wanted; unsupported, for <tokens>.
Result<Syntax> parse_gbnf(std::string_view text);

}  // namespace fulmar
