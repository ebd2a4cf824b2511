#!/usr/bin/env bash
# Builds the fuzz target of HTTP requests as one program that needs no library but the C library's, for a long run on
# another machine: tools/fuzz_portable.sh OUT, then there: OUT CORPUS tests/fuzz/corpus/http_request -runs=100000000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:?tools/fuzz_portable.sh OUT}
ignored=$(mktemp)
trap 'rm -f "$ignored"' EXIT
# Unsigned arithmetic that wraps on purpose is others' business.
printf 'src:/usr/*\n' >"$ignored"
clang++ -std=c++20 -O2 -g1 -DNDEBUG -DFMT_HEADER_ONLY -Isrc -Itests/fuzz -fsanitize=fuzzer,address,undefined,integer -fno-sanitize=vptr \
  -fno-sanitize-recover=all -fsanitize-ignorelist="$ignored" -static-libstdc++ -static-libgcc \
  tests/fuzz/fuzz_http_request.cpp src/net/{request_reader,http_format,http_message,url}.cpp src/base/utf8.cpp -o "$out"
