// The text of `fulmar --version`.
#pragma once

#include <string>

namespace fulmar {

// Returns "fulmar 0.2.0", the commit that it was built from, the CPU instruction set that this machine runs
// and the GPU architectures that the build has kernels for, one a line.
std::string version_text();

// Returns "fulmar 0.2.0, commit 0123456789ab".
std::string one_line_version();

// Returns the compute capabilities that the build has kernels for, "80, 90"; "none" without GPU support.
std::string gpu_targets();

}  // namespace fulmar
