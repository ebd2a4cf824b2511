#!/bin/sh
# Runs the CUDA tests and benchmarks of a built tree on a machine that has only the driver and the CUDA
# libraries; builds nothing.
#   tools/gpu_check.sh TREE REPORT PART...
# TREE holds fulmar, fulmar_gpu_test and, in lib/, what the loader does not find by itself. REPORT is a folder
# for logs and the benchmarks' JSON. PARTs: tests (several processes side by side), tests-no-panels (the same as a
# GPU without panels goes: tiles and the library), tests-no-matrix-units (as an AMD card goes), large (7B models against the CPU; 30 GB of host memory), demo
# (the demo model's suite, where its files lie beside the tree), sanitize (memcheck), races (racecheck), decode,
# prefill, kernels, small, rwkv6, serve (320 streams through HTTP), no-panels (9 to 64 rows with and without panels)
# floor (the speed without matrix units) and ab (the tables of BEFORE, a second tree named in the environment, and TREE in alternation; ROUNDS of each,
# default 3). Tables come last.
set -u
tree=$1 report=$2
shift 2
mkdir -p "$report"
python_libraries=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2>/dev/null)
export LD_LIBRARY_PATH="$tree/lib:/usr/local/cuda/lib64:$python_libraries:${LD_LIBRARY_PATH:-}"
failed=0
shards=5

# tests NAME: logs go to NAME*.log
tests() {
  name=$1
  pids=
  for shard in $(seq 0 $((shards - 1))); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard timeout 200 stdbuf -oL "$tree/fulmar_gpu_test" \
      >"$report/$name$shard.log" 2>&1 &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || failed=1; done
  grep -hE "error|Failure|FAILED  \]|PASSED  \]|failure:" "$report/$name"?.log | head -n 60
}

tests_no_panels() {
  export FULMAR_NO_PANELS=1
  tests tests-no-panels
  unset FULMAR_NO_PANELS
}

tests_no_matrix_units() {
  export FULMAR_NO_MATRIX_UNITS=1
  tests tests-no-matrix-units
  unset FULMAR_NO_MATRIX_UNITS
}

large() {
  FULMAR_LARGE_MODELS=1 timeout 200 "$tree/fulmar_gpu_test" --gtest_filter='*GpuLarge*' \
    >"$report/large.log" 2>&1 || failed=1
  grep -E "rms error|FAILED|PASSED" "$report/large.log"
}

demo() {
  timeout 100 "$tree/fulmar" eval --suite demo --device cuda >"$report/demo.log" 2>&1 || failed=1
  cat "$report/demo.log"
}

# sanitize_by TOOL PROCESSES FILTER
sanitize_by() {
  tool=$1 processes=$2 filter=$3
  pids=
  for shard in $(seq 0 $((processes - 1))); do
    GTEST_TOTAL_SHARDS=$processes GTEST_SHARD_INDEX=$shard timeout 240 stdbuf -oL compute-sanitizer --tool "$tool" \
      --error-exitcode 9 "$tree/fulmar_gpu_test" --gtest_filter="$filter" >"$report/$tool$shard.log" 2>&1 &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || failed=1; done
  listed=$("$tree/fulmar_gpu_test" --gtest_filter="$filter" --gtest_list_tests | grep -c '^  ')
  echo "$tool: $(cat "$report/$tool"*.log | grep -c ' OK \]') of $listed tests," \
    "$(cat "$report/$tool"*.log | grep -c 'SKIPPED \].* ms)') skipped;" \
    "$(grep -h SUMMARY "$report/$tool"*.log | sort | uniq -c | tr '\n' ' ')"
  grep -hE "FAILED  \]|Race reported|Invalid|failure:" "$report/$tool"*.log | sort | uniq -c | head -n 20
}

# What takes part: every test but those of whole trained or large models (the same kernels, thousands of launches),
# 4,097 rows and 64 heads ("wide").
sanitize() {
  sanitize_by memcheck 10 "-$LONG"
}

# The GEMM library's kernels order their accesses in ways that this tool does not know, so plain products take their
# place; and each access costs, so tests repeat less (tests/gpu/gpu_device.h).
races() {
  export FULMAR_RACECHECK=1
  sanitize_by racecheck 16 "-$LONG:*GpuPlainProducts*:*GpuMemory*"
  unset FULMAR_RACECHECK
}

# bench NAME COMMAND FLAGS... A tree to compare with may have the one command alone, which measures steps.
bench() {
  name=$1
  command=$2
  shift 2
  "${of:-$tree}/fulmar" bench --help | grep -q "^  $command " || command=
  timeout 280 "${of:-$tree}/fulmar" bench $command --devices cuda --zeros 0.9 --quiet --json "$report/$name.json" "$@" \
    >"$report/$name.txt" 2>&1 || failed=1
  tables="$tables $report/$name.txt"
}

# The lines that must not get slower, of two trees by turns on one card: what a card does by itself (clocks, heat)
# meets both alike. Medians of the rounds, and how much slower or quicker the second tree is.
ab() {
  before=${BEFORE:?"BEFORE is not set; wanted the tree to compare with"}
  rounds=${ROUNDS:-3}
  for round in $(seq 1 "$rounds"); do
    for side in before after; do
      of=$tree
      [ $side = after ] || of=$before
      bench "ab-$side-decode-$round" steps --synthetic rwkv7-7.2b --decode 1,8,32,128,320,960 --prefill 1x1024,1x4096,8x512 \
        --state-dtype fp32,fp16 --repeats 5
      bench "ab-$side-small-$round" steps --synthetic rwkv7-1.5b --decode 1,32 --prefill "" --repeats 5
      bench "ab-$side-tiny-$round" steps --synthetic rwkv7-0.1b --decode 1,32 --prefill "" --repeats 5
      bench "ab-$side-rwkv6-$round" steps --synthetic rwkv6-7b --decode 1,8,32,128,320 --prefill 1x1024,1x4096 --repeats 5
    done
  done
  unset of
  tables=
  python3 - "$report" <<'PYTHON'
import json, statistics, sys
from pathlib import Path
lines = {}
for path in sorted(Path(sys.argv[1]).glob("ab-*.json")):
    _, side, table, _ = path.stem.split("-")
    for line in json.loads(path.read_text())["lines"]:
        key = (table, line["workload"], line["sequences"], line["tokens"], line["state_dtype"])
        lines.setdefault(key, {}).setdefault(side, []).append(line["tokens_per_second"])
for key, sides in lines.items():
    before, after = (statistics.median(sides.get(side, [0])) for side in ("before", "after"))
    print(f"{' '.join(map(str, key)):40} {before:12.1f} {after:12.1f} {100 * (after / before - 1) if before else 0:+7.2f} %")
PYTHON
}

LONG='*wide*:*4097*:*GpuLarge*:*GpuReverse*:*GpuGolden*'
tables=
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for what in "$@"; do
  case $what in
    tests) tests tests ;;
    tests-no-panels) tests_no_panels ;;
    tests-no-matrix-units) tests_no_matrix_units ;;
    large) large ;;
    demo) demo ;;
    sanitize) sanitize ;;
    races) races ;;
    decode) bench decode steps --synthetic rwkv7-7.2b --decode 1,8,32,128,320,960 --prefill "" --state-dtype fp32,fp16 ;;
    prefill) bench prefill steps --synthetic rwkv7-7.2b --decode "" --prefill 1x1024,1x4096,8x512 ;;
    kernels) bench kernels kernels --synthetic rwkv7-7.2b --decode 1,32,320,960 --prefill 1x4096 --repeats 1 ;;
    small) bench small-1.5b --synthetic rwkv7-1.5b --decode 1,32 --prefill ""
      bench small-0.1b --synthetic rwkv7-0.1b --decode 1,32 --prefill "" ;;
    rwkv6) bench rwkv6 kernels --synthetic rwkv6-7b --decode 1,8,32,128,320 --prefill 1x1024,1x4096 ;;
    floor) bench floor steps --synthetic rwkv7-7.2b --decode 1,32,320 --prefill 1x1024 --pretend simt ;;
    no-panels) bench panels kernels --synthetic rwkv7-7.2b --decode 12,16,32,64 --prefill ""
      bench no-panels kernels --synthetic rwkv7-7.2b --decode 12,16,32,64 --prefill "" --pretend sm80 ;;
    ab) ab ;;
    serve) for size in 7.2b 1.5b; do
        bench serve-$size serve --synthetic rwkv7-$size --streams 320 --tokens 256
      done ;;
    *) echo "unknown part '$what'" >&2; exit 2 ;;
  esac
done
[ -z "$tables" ] || cat $tables
exit $failed
