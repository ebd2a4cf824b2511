// What `fulmar --version` prints.
#pragma once

#include <string>

namespace fulmar {

// "fulmar 0.2.0", the commit that it was built from, the CPU instruction set that this machine runs and the
// GPU architectures that there are kernels for, one a line.
std::string version_text();

}  // namespace fulmar
