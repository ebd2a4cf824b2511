#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for SECONDS (default 60) on its corpus. Inputs that widen the coverage are
# kept in build/fuzz/corpus; a crash leaves its input in build/fuzz and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
if ! command -v clang++ >/dev/null || ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer - -o /dev/null 2>/dev/null; then
  echo "fuzz: skipped: no clang++ with libFuzzer here (Debian: clang, libclang-rt-14-dev)"
  exit 0
fi
mkdir -p build
cmake --preset fuzz >build/fuzz.log 2>&1 || { cat build/fuzz.log >&2; exit 1; }
targets=$(cd tests/fuzz && ls fuzz_*.cpp | sed 's/\.cpp$//')
# shellcheck disable=SC2086
cmake --build --preset fuzz --target $targets
for target in $targets; do
  kept=build/fuzz/corpus/$target
  seeds=tests/fuzz/corpus/${target#fuzz_}
  mkdir -p "$kept"
  folders=("$kept")
  [ -d "$seeds" ] && folders+=("$seeds")
  echo "fuzz: $target for $seconds s"
  "build/fuzz/$target" "${folders[@]}" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 \
    -artifact_prefix=build/fuzz/ -print_final_stats=1 >"build/fuzz/$target.log" 2>&1 ||
    { tail -n 40 "build/fuzz/$target.log" >&2; exit 1; }
  grep -E 'number_of_executed_units|peak_rss_mb' "build/fuzz/$target.log"
done
