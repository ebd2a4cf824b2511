// FULMAR_CHECK is for our own bugs only: nothing a user sends may ever reach a failing one.
#pragma once

namespace fulmar {

// Prints the place and the broken condition to stderr and aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* note);

}  // namespace fulmar

#define FULMAR_CHECK(condition, ...)                                          \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::fulmar::check_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__); \
  } while (0)
