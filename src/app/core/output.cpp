#include "app/core/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/write_file.h"

namespace fulmar {
namespace {

// Returns 0, or errno of closing: where a file is stored elsewhere, that is when it is refused.
int fault_of_closing() {
  const int copy = ::dup(STDOUT_FILENO);
  return copy < 0 || ::close(copy) == 0 ? 0 : errno;
}

// Returns 0, or errno of what failed. The stream keeps no reason of an earlier failure; an empty line meets
// it again, and harms no text that lacks a part already.
int fault_of_output() {
  std::cout.flush();
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) return errno;
  if (!failed_before) return fault_of_closing();
  return ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

}  // namespace

Status flush_output() {
  const int reason = fault_of_output();
  std::clearerr(stdout);
  if (reason == 0) return {};
  return Error{kind_of_refusal(reason),
               fmt::format("standard output cannot be written: {}", std::strerror(reason))};
}

}  // namespace fulmar
