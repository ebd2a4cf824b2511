// What Highway's library tells of a processor, for the one instruction set that the kernels are built for
// here: Debian has the library for the machine that builds alone.
#include "cpu/simd_targets.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

static_assert(HWY_TARGETS == HWY_NEON);

namespace hwy {

int64_t SupportedTargets() { return HWY_NEON; }
void SetSupportedTargetsForTest(int64_t) {}
ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
