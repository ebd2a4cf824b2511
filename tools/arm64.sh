#!/usr/bin/env bash
# Tests of encoders and of the CPU's kernels with Arm's instructions (NEON): cross-compiled and run by an emulator, as the least
# of 64-bit processors and as one with all that the emulator has. Says what is missing where that cannot be done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for need in aarch64-linux-gnu-g++ qemu-aarch64 /usr/src/googletest/CMakeLists.txt; do
  command -v "$need" >/dev/null || [ -e "$need" ] || { echo "skipped: no $need here (./dev packages arm64)"; exit 0; }
done
mkdir -p build
cmake -G Ninja -S tests/arm64 -B build/arm64 -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
  -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  >build/arm64.log 2>&1 || { cat build/arm64.log >&2; exit 1; }
cmake --build build/arm64 --target fulmar_arm64_test fulmar_arm64_dot_test
# What an emulator is too slow for and no instruction set changes: measured ceilings, work for several threads. The second
# processor leaves out what takes longest of the products.
slow='Ceilings.*:ThreadPool.*:Linear.EveryThreadCount:Linear.ManyEqualsOneByOne'
test_as() {  # processor, then a filter
  qemu-aarch64 -cpu "$1" build/arm64/fulmar_arm64_test --gtest_brief=1 --gtest_filter="$2$slow" >"build/arm64.$1.log" 2>&1
}
test_as cortex-a53 'Linear*-' & least=$!
failed=0
test_as max '*-Linear.LargerThanOneBlock:Linear.EveryQuantisationMatchesItsDecoder:' || failed=1
wait "$least" || failed=1
# Dot products of bytes, which the compiler has to be told of.
qemu-aarch64 -cpu max build/arm64/fulmar_arm64_dot_test --gtest_brief=1 --gtest_filter='Linear.*Cod*:Linear.*Activations*' \
  >build/arm64.dot.log 2>&1 || failed=1
for processor in cortex-a53 max dot; do
  echo "arm64: $processor: $(tail -n 1 "build/arm64.$processor.log")"
done
[ "$failed" = 0 ] || { cat build/arm64.cortex-a53.log build/arm64.max.log build/arm64.dot.log >&2; exit 1; }
