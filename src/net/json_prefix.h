// Partial JSON: an object whose end is missing, because its writer was cut off.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

struct JsonPrefix {
  std::string_view text;    // what was read, up to the object's end where that is there
  bool closed = false;      // it is
  std::string completed{};  // a valid object of the values that are whole; "{}" where `text` is no object
};

// Reads `text`, which begins with an object, or with the beginning of one.
JsonPrefix read_json_prefix(std::string_view text);

}  // namespace fulmar
