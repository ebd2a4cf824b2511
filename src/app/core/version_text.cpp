// Facts of the build and of this machine.
#include "app/core/version_text.h"

#include <fmt/format.h>

#include "base/version.h"
#include "build_commit.h"
#include "cpu/row_math.h"

namespace fulmar {

std::string version_text() {
  return fmt::format("fulmar {}\ncommit {}\ncpu    {}\ngpu    {}", program_version(), FULMAR_COMMIT,
                     cpu::instruction_set(), gpu_targets());
}

std::string one_line_version() {
  return fmt::format("fulmar {}, commit {}", program_version(), FULMAR_COMMIT);
}

std::string gpu_targets() { return FULMAR_GPU_TARGETS; }

}  // namespace fulmar
