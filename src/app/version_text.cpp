// Facts of the build and of this machine.
#include "app/version_text.h"

#include <fmt/format.h>

#include "build_commit.h"
#include "cpu/row_math.h"

namespace fulmar {

std::string version_text() {
  return fmt::format("fulmar {}\ncommit {}\ncpu    {}\ngpu    {}", FULMAR_VERSION, FULMAR_COMMIT,
                     cpu::instruction_set(), FULMAR_GPU_TARGETS);
}

}  // namespace fulmar
