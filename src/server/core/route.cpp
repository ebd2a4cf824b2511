// Fills in the "*" of a path.
#include "server/core/route.h"

namespace fulmar {

std::string path_with(std::string_view path, std::string_view argument) {
  std::string text(path);
  if (const size_t star = text.find('*'); star != std::string::npos) text.replace(star, 1, argument);
  return text;
}

}  // namespace fulmar
