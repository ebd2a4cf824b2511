// The instruction sets that kernels are built for. Include before any Highway header.
#pragma once

// Accumulators live in arrays, which scalable vectors forbid; SSSE3 machines fall back to the baseline. Later
// forms of AVX-512 are enabled by the files that need them.
#define FULMAR_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | (HWY_AVX3 - 1))
#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS FULMAR_DISABLED_TARGETS
