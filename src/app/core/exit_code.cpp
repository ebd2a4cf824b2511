#include "app/core/exit_code.h"

#include <cstdio>

namespace fulmar {

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
    case ErrorKind::conflict:
      return 2;
    case ErrorKind::not_found:
    case ErrorKind::unsupported:
    case ErrorKind::corrupt:
    case ErrorKind::io:
      return 3;
    case ErrorKind::resource:
    case ErrorKind::unavailable:
      return 4;
    case ErrorKind::internal:
      return 1;
  }
  return 1;
}

int report(const Error& error) {
  std::fprintf(stderr, "fulmar: %s\n", error.text.c_str());
  return exit_code_of(error.kind);
}

int exit_code(const Result<int>& result) { return result.ok() ? *result : report(result.error()); }

}  // namespace fulmar
