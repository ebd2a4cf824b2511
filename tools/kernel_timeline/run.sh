#!/bin/sh
# When each kernel of a step began and ended, on a machine with an NVIDIA GPU and CUPTI (part of CUDA):
#   tools/kernel_timeline/run.sh OUT.tsv build/release/fulmar bench steps --devices cuda --synthetic rwkv7-7.2b --decode 32 --prefill ""
# prints what each kernel adds to the step (timeline.py). TIMELINE_DEVICE=1 in the environment notes those of the second GPU.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
shift
cuda=${CUDA_HOME:-/usr/local/cuda}
library=$(mktemp -d)/libtimeline.so
g++ -std=c++20 -O1 -shared -fPIC -I"$cuda/include" "$here/inject.cpp" -o "$library" -L"$cuda/lib64" -L"$cuda/lib" \
  -L"$cuda/extras/CUPTI/lib64" -lcupti
CUDA_INJECTION64_PATH=$library TIMELINE_OUT=$out "$@"
python3 "$here/timeline.py" "$out"
