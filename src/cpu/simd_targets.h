// Which instruction sets the kernels are built for. Include before any Highway header.
#pragma once

// Accumulators live in arrays, which scalable vectors forbid; SSSE3 machines fall back to the baseline. What
// AVX-512 has beyond its first form is for files that ask for it.
#define FULMAR_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | (HWY_AVX3 - 1))
#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS FULMAR_DISABLED_TARGETS
