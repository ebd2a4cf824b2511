// What `fulmar --version` prints.
#pragma once

#include <string>

namespace fulmar {

// "fulmar 0.2.0", the commit that it was built from, the CPU instruction set that this machine runs and the
// GPU architectures that there are kernels for, one a line.
std::string version_text();

// "fulmar 0.2.0, commit 0123456789ab"
std::string one_line_version();

// The compute capabilities that there are kernels for, "80, 90"; "none" in a build without GPU support.
std::string gpu_targets();

}  // namespace fulmar
