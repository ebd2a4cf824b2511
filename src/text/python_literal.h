// Reads the string literals that Python's repr() writes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// Parses `literal`, the whole of '..', "..", b'..' or b"..", with the escapes \t \n \r \\ \' \" \xHH and,
// except in bytes literals, \uHHHH \UHHHHHHHH. Text gives its UTF-8 bytes, where \xHH is a code point. The
// error says what is wrong, but not where.
Result<std::string> parse_python_literal(std::string_view literal);

}  // namespace fulmar
