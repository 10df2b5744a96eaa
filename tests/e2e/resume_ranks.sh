#!/usr/bin/env bash
# Two processes: an interrupted and resumed run equals the whole one; and it goes on with another number
# of processes, in the same order of images.
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 6
ranks=(--device cpu --processes 2)
"$SGTRAIN" recipe.yaml --run-dir whole "${ranks[@]}" 2>whole.log || { cat whole.log; fail "the run"; }

stops=0
for ((i = 0; i < 50; ++i)); do
  "$SGTRAIN" recipe.yaml --run-dir stopped "${ranks[@]}" 2>stopped.log &
  pid=$!
  while [ -d /proc/$pid ] && ! grep -q 'TRAINING PARAMETERS' stopped.log; do sleep 0.05; done
  random_sleep 0 0.4
  kill -TERM $pid 2>/dev/null || true
  code=0; wait $pid || code=$?
  [ $code != 0 ] || break
  [ $code = 143 ] || { tail -20 stopped.log; fail "exit code $code after SIGTERM"; }
  stops=$((stops + 1))
done
[ $code = 0 ] || fail "never came to an end"
echo "stopped $stops times"
same_end whole stopped

cp -r whole more
"$SGTRAIN" resume more epochs=7 --device cpu --processes 1 2>more.log || { cat more.log; fail "two processes, then one"; }
grep -q 'had 2 processes and goes on with 1' more.log || { cat more.log; fail "the change was not announced"; }
"$SGTRAIN" resume more epochs=8 --device cpu --processes 2 2>more.log || { cat more.log; fail "one process, then two"; }
[ "$(tail -n +2 more/results.csv | cut -d, -f1 | tr '\n' ' ')" = "0 1 2 3 4 5 6 7 " ] || fail "results: $(cat more/results.csv)"

# A folder of one's own for all runs: rank 0 finds the run, and all ranks go on in it.
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/own root" epochs=1 "${ranks[@]}" 2>one.log || { cat one.log; fail "one epoch"; }
run=$(run_of "own root")
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/own root" epochs=2 resume=True "${ranks[@]}" 2>two.log || { cat two.log; fail "resume=True"; }
[ "$(run_of "own root")" = "$run" ] || fail "resume=True made another run folder"
grep -q "resumed from $run/ckpt_latest.pth: epoch 1" two.log || { cat two.log; fail "another file was resumed"; }
[ "$(tail -n +2 "$run/results.csv" | cut -d, -f1 | tr '\n' ' ')" = "0 1 " ] || fail "results: $(cat "$run/results.csv")"

# Two processes, then one, then three, each stopped within an epoch: with synchronised batch norm and the
# same global batch (6 images, 10 of them an epoch, the rest is dropped) the weights are those of one
# process that was never stopped, so the images were the same in the same order.
sed -i -e 's/droppath_prob: 0.2/droppath_prob: 0.0/' -e 's/shuffle: True/shuffle: True, drop_last: True/' recipe.yaml
order=(epochs=3 training_hyperparams.precision=fp64 training_hyperparams.sync_bn=True --plugin "$SGTRAIN_BUILD_DIR/tests/fault_plugin.so")
stop_at() { echo "training_hyperparams.phase_callbacks=[{Fault: {what: stop, rank: 0, step: $1}}]"; }
"$SGTRAIN" recipe.yaml --run-dir never_stopped --device cpu batch_size=6 "${order[@]}" "$(stop_at 1000)" 2>order.log ||
  { tail order.log; fail "one process"; }
parts() { # PROCESSES BATCH STEP CODE
  local code=0
  "$SGTRAIN" recipe.yaml --run-dir in_parts --device cpu --processes $1 batch_size=$2 "${order[@]}" "$(stop_at $3)" 2>order.log || code=$?
  [ $code = $4 ] || { tail -20 order.log; fail "$1 processes: exit code $code, not $4"; }
}
parts 2 3 5 143
grep -q 'stopped by SIGTERM at epoch 0 batch 6' order.log || { tail -5 order.log; fail "not stopped where wanted"; }
parts 1 6 17 143
grep -q 'stopped by SIGTERM at epoch 1 batch 8' order.log || { tail -5 order.log; fail "not stopped where wanted"; }
parts 3 2 1000 0
distance=$("$SGTRAIN_BUILD_DIR/tests/checkpoint_tool" distance never_stopped/ckpt_latest.pth in_parts/ckpt_latest.pth | tail -n 1)
echo "one process and 2, 1, 3 processes: $distance"
awk -v d="${distance#distance }" 'BEGIN {exit !(d <= 1e-8)}' || fail "other images or another order: $distance"
