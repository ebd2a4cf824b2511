#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace fulmar {

void check_failed(const char* condition, const char* file, int line, const char* note) {
  std::fprintf(stderr, "fulmar: bug at %s:%d: '%s' does not hold. %s\n", file, line, condition, note);
  std::abort();
}

}  // namespace fulmar
