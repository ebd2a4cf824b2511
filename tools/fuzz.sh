#!/usr/bin/env bash
# Builds the program and the libFuzzer targets with Clang, warnings being errors, and runs each target for SECONDS
# (default 60), those of HTTP, schemas and bodies by route three times as long, on its corpus, as many at once as there
# are cores. Inputs that widen the coverage are kept in build/fuzz/corpus; a crash leaves its input in build/fuzz and fails.
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
cmake --build --preset fuzz --target fulmar ${targets/fuzz_http_request/}
tools/fuzz_portable.sh build/fuzz/fuzz_http_request  # with checks of integers, too

# fuzz_one TARGET SECONDS
fuzz_one() {
  local target=$1 seconds=$2
  case $target in  # what strangers send gets three times as long
    fuzz_http_* | fuzz_schema | fuzz_route_body) seconds=$((seconds * 3)) ;;
  esac
  local kept=build/fuzz/corpus/$target seeds=tests/fuzz/corpus/${target#fuzz_}
  mkdir -p "$kept"
  local folders=("$kept")
  [ -d "$seeds" ] && folders+=("$seeds")
  if ! "build/fuzz/$target" "${folders[@]}" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 \
    -artifact_prefix=build/fuzz/ -print_final_stats=1 >"build/fuzz/$target.log" 2>&1; then
    echo "fuzz: $target failed" >&2
    tail -n 40 "build/fuzz/$target.log" >&2
    return 1
  fi
  echo "fuzz: $target for $seconds s: $(grep -Eo '(number_of_executed_units|peak_rss_mb): *[0-9]+' "build/fuzz/$target.log" | tr -s ' ' | tr '\n' ' ')"
}
export -f fuzz_one
# One a core: each is a single thread.
printf '%s\n' $targets | xargs -P "$(nproc)" -I{} bash -c "fuzz_one {} $seconds"
