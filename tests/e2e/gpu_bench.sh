#!/usr/bin/env bash
# scripts/bench/gpu.sh: its logic on the CPU, and what it says where there is no GPU.
# timeout: 300
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
export OMP_NUM_THREADS=1
bench=$SGTRAIN_SOURCE_DIR/scripts/bench/gpu.sh
for n in 1 2; do
  SGTRAIN_BENCH_DEVICE=cpu "$bench" $n >out 2>&1 || { cat out; fail "gpu.sh on $n processes of the CPU"; }
  for model in resnet50 yolo_nas_s; do grep -q "^$model\$" out || { cat out; fail "no $model"; }; done
  [ "$(grep -c 'epoch 1: .* images/s; per step .* waiting for data' out)" = 2 ] || { cat out; fail "no rates"; }
  [ "$(grep -c 'training took .*peak memory' out)" = 2 ] || { cat out; fail "no parts of the time, or no memory"; }
done
code=0; CUDA_VISIBLE_DEVICES='' "$bench" >out 2>&1 || code=$?
[ $code = 2 ] || { cat out; fail "without a GPU: exit code $code"; }
grep -q 'no GPU can be used here' out || { cat out; fail "without a GPU: no word of it"; }
