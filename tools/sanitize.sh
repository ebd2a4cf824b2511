#!/usr/bin/env bash
# Address, undefined-behaviour and thread sanitizers over what runs on several threads or reads what others send.
# FULMAR_TSAN_MORE="fulmar_server_test fulmar_control_test" adds programs to the thread sanitizer's (minutes of building).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The growth test counts steps, which no sanitizer changes, and takes minutes there.
test_one() {  # preset, program
  if "build/$1/$2" --gtest_brief=1 --gtest_filter='-Growth.*' >"build/$1/$2.log" 2>&1; then
    echo "sanitize: $1 $2: $(grep -E '^\[  PASSED  \]' "build/$1/$2.log")"
  else
    echo "sanitize: $1 $2 failed" >&2
    tail -n 200 "build/$1/$2.log" >&2
    return 1
  fi
}
export -f test_one
run() {  # preset, then test programs, longest first: they run as many at once as there are cores
  local preset=$1; shift
  mkdir -p build
  cmake --preset "$preset" >"build/$preset.log" 2>&1 || { cat "build/$preset.log" >&2; exit 1; }
  cmake --build --preset "$preset" --target "$@"
  printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c "test_one $preset {}"
}
export ASAN_OPTIONS=detect_leaks=1 TSAN_OPTIONS=halt_on_error=1
# The last one only skips: here it is built as on a machine without CUDA.
run asan fulmar_server_test fulmar_engine_test fulmar_cache_test fulmar_grammar_test fulmar_net_test fulmar_files_test fulmar_text_test fulmar_gpu_amd_test fulmar_gpu_test
run tsan fulmar_engine_test ${FULMAR_TSAN_MORE:-} fulmar_cache_test fulmar_net_test
