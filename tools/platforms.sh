#!/usr/bin/env bash
# What .ci/run has no time for: the GPU backend compiled for AMD's cards, and the CPU's kernels for 64-bit Arm in an
# emulator. To be run before a release, and after changes to src/gpu, src/ops, src/cpu or src/tensor.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
if command -v hipcc >/dev/null; then
  cmake --preset hip >build/hip.log 2>&1 || { cat build/hip.log >&2; exit 1; }
  cmake --build --preset hip --target fulmar
else
  echo "platforms: AMD's cards skipped: no hipcc here (./dev packages hip)"
fi
tools/arm64.sh
