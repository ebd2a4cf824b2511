// The program's exit codes: 0 fine, 1 our fault, 2 usage, 3 file, 4 resources, 5 a device that failed
// (base/exit_codes.h), 6 answered turns that no store has.
#pragma once

#include "base/result.h"

namespace fulmar {

// A server has ended without storing turns that it had answered.
inline constexpr int kTurnsLostExit = 6;

int exit_code_of(ErrorKind kind);
// Prints one line on stderr, "fulmar: <text>"; returns the code to exit with.
int report(const Error& error);
// Returns a command's own code, or reports its error and returns that one's.
int exit_code(const Result<int>& result);

}  // namespace fulmar
