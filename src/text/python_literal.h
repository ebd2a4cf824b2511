// Reads the string literals that Python's repr() writes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// `literal` is the whole of '..', "..", b'..' or b"..", with the escapes \t \n \r \\ \' \" \xHH and, outside
// bytes literals, \uHHHH \UHHHHHHHH. Text stands for its UTF-8 bytes; there \xHH is a code point. The error
// says what is wrong, without saying where.
Result<std::string> parse_python_literal(std::string_view literal);

}  // namespace fulmar
