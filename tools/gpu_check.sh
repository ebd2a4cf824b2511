#!/bin/sh
# Runs the CUDA tests and benchmarks of a built tree on a machine that has only the driver and the CUDA
# libraries; builds nothing.
#   tools/gpu_check.sh TREE REPORT PART...
# TREE holds fulmar_gpu_test, fulmar_gpu_bench and, in lib/, what the loader does not find by itself. REPORT is
# a folder for the logs; PARTs are tests, sanitize, kernels, decode, small and rwkv6. Tables come last.
set -u
tree=$1 report=$2
shift 2
mkdir -p "$report"
python_libraries=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2>/dev/null)
export LD_LIBRARY_PATH="$tree/lib:/usr/local/cuda/lib64:$python_libraries:${LD_LIBRARY_PATH:-}"
failed=0

tests() {
  timeout 200 "$tree/fulmar_gpu_test" --gtest_brief=1 "$@" >"$report/tests.log" 2>&1 || failed=1
  tail -n 60 "$report/tests.log"
}

sanitize() {
  for tool in memcheck racecheck; do
    timeout 240 compute-sanitizer --tool $tool --error-exitcode 9 "$tree/fulmar_gpu_test" --gtest_brief=1 \
      --gtest_filter="$SANITIZE_FILTER" >"$report/$tool.log" 2>&1 || failed=1
    echo "$tool: $(tail -n 2 "$report/$tool.log" | tr '\n' ' ')"
  done
}

bench() {
  timeout 280 "$tree/fulmar_gpu_bench" "$@" >>"$report/bench.txt" 2>&1 || failed=1
}

SANITIZE_FILTER='*Primitives*:*Islands*:*Ragged*:*ChunkedRecurrence*'
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
: >"$report/bench.txt"
for what in "$@"; do
  case $what in
    tests) tests ;;
    sanitize) sanitize ;;
    kernels) bench rwkv7-7.2b 0.9 kernels:1x1 kernels:8x1 kernels:32x1 kernels:320x1 kernels:960x1 kernels:1x1024 kernels:8x512 kernels:128x1 ;;
    decode) bench rwkv7-7.2b 0.9 decode:1:fp32 decode:8:fp32 decode:32:fp32 decode:128:fp32 decode:320:fp32 \
      decode:320:fp16 decode:960:fp32 decode:960:fp16 prefill:1x1024 prefill:1x4096 prefill:8x512 ;;
    small) bench rwkv7-1.5b 0.9 decode:1:fp32 decode:32:fp32
      bench rwkv7-0.1b 0.9 decode:1:fp32 decode:32:fp32 ;;
    rwkv6) bench rwkv6-7b 0.9 decode:1:fp32 decode:32:fp32 decode:320:fp32 prefill:1x1024 ;;
    *) echo "unknown part '$what'" >&2; exit 2 ;;
  esac
done
cat "$report/bench.txt"
exit $failed
