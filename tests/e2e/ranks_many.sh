#!/usr/bin/env bash
# Twenty two-rank jobs started at once all succeed, and ten starts in a row leave no process and no file.
# timeout: 600
# serial
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 1
mkdir tmp
job() { TMPDIR=$PWD/tmp "$SGTRAIN" recipe.yaml --device cpu --processes 2 --run-dir "$1" >"$1.log" 2>&1; }
pids=()
for i in $(seq 20); do job "at_once$i" & pids+=($!); done
i=0
for pid in "${pids[@]}"; do
  i=$((i + 1))
  wait "$pid" || { tail -20 "at_once$i.log"; fail "job $i of 20"; }
done
# torchrun's name for --processes; and a recipe for GPUs on the CPU says so.
"$SGTRAIN" recipe.yaml --device cpu --nproc_per_node 2 multi_gpu=DDP ++num_gpus=8 --run-dir named >named.log 2>&1 || { tail named.log; fail "--nproc_per_node"; }
grep -q '2 processes' named.log || { cat named.log; fail "--nproc_per_node 2 with --device cpu: not two"; }
grep -q 'num_gpus and multi_gpu have no effect' named.log || { cat named.log; fail "num_gpus on the CPU: no note"; }
for i in $(seq 10); do job "in_a_row$i" || { tail -20 "in_a_row$i.log"; fail "start $i"; }; done
[ -z "$(ls tmp)" ] || fail "left: $(ls tmp)"
for exe in /proc/[0-9]*/cwd; do
  pid=${exe#/proc/}; pid=${pid%/cwd}
  if [ "$pid" != $$ ] && [ "$(readlink "$exe" 2>/dev/null)" = "$PWD" ] && grep -q sgtrain "/proc/$pid/comm" 2>/dev/null; then
    fail "process $pid is left"
  fi
done
