// What the program's exit code says: 0 fine, 1 our fault, 2 usage, 3 file, 4 resources.
#pragma once

#include "base/result.h"

namespace fulmar {

int exit_code_of(ErrorKind kind);
// One line on stderr, "fulmar: <text>"; returns the code to exit with.
int report(const Error& error);

}  // namespace fulmar
