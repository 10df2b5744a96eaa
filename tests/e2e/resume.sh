#!/usr/bin/env bash
# A run that is interrupted anywhere and resumed ends with the same checkpoints and results, bit for bit,
# as one that was not.
# timeout: 600
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data"
"$SGTRAIN" recipe.yaml --run-dir whole 2>whole.log || { cat whole.log; fail "the run"; }
[ -s whole/average_model.pth ] || fail "no averaged model"
[ ! -e whole/averaging_snapshots ] || fail "snapshots are left"
[ "$(echo whole/ckpt_epoch_*.pth)" = "whole/ckpt_epoch_2.pth whole/ckpt_epoch_24.pth" ] || fail "kept: $(ls whole)"

# Signals (USR2: preemption): within an epoch, in validation, between epochs. A run that was too fast is tried again.
stops=0
signals=(INT TERM USR2)
for ((try = 0; try < 20 && stops == 0; ++try)); do
  rm -rf stopped
  code=1
  while [ $code != 0 ]; do
    "$SGTRAIN" recipe.yaml --run-dir stopped 2>now.log &
    pid=$!
    while [ -d /proc/$pid ] && ! grep -q 'TRAINING PARAMETERS' now.log; do sleep 0.02; done
    random_sleep 0 0.4
    signal=${signals[$((stops % 3))]}
    kill -$signal $pid 2>/dev/null || true
    code=0; wait $pid || code=$?
    cat now.log >>stopped.log
    [ $code != 0 ] || break
    [ $code = $((128 + $(kill -l $signal))) ] || { cat now.log; fail "exit code $code after SIG$signal"; }
    stops=$((stops + 1))
  done
done
echo "stopped $stops times: $(grep -o 'stopped by.*batch [0-9]*' stopped.log | sort | uniq -c | wc -l) places"
[ $stops -ge 1 ] || fail "the run was never interrupted"
same_end whole stopped

# `resume`, `run_id`, resume RUN_DIR and resume_path go on from the same state.
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/runs" epochs=2 2>two.log || { cat two.log; fail "two epochs"; }
run=$(run_of runs)
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/runs" epochs=3 resume=True 2>three.log || { cat three.log; fail "resume=True"; }
[ "$(run_of runs)" = "$run" ] || fail "resume=True made another run folder"
grep -q 'max_epochs was 2 and is 3' three.log || fail "the extension was not announced"
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/runs" epochs=4 training_hyperparams.run_id="$(basename "$run")" 2>four.log ||
  { cat four.log; fail "run_id"; }
"$SGTRAIN" resume "$run" epochs=5 2>five.log || { cat five.log; fail "resume RUN_DIR"; }
[ "$(tail -n +2 "$run/results.csv" | cut -d, -f1 | tr '\n' ' ')" = "0 1 2 3 4 " ] || fail "results: $(cat "$run/results.csv")"
"$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/runs" epochs=6 training_hyperparams.resume_path="$run/ckpt_latest.pth" 2>six.log ||
  { cat six.log; fail "resume_path"; }
[ "$(run_of runs)" != "$run" ] || fail "resume_path wrote into the old run folder"
[ "$(tail -n +2 "$(run_of runs)/results.csv" | cut -d, -f1 | tr '\n' ' ')" = "5 " ] || fail "resume_path began elsewhere"
if "$SGTRAIN" recipe.yaml ckpt_root_dir="$PWD/runs" training_hyperparams.run_id=RUN_none 2>none.log; then fail "a run_id of no run"; fi
grep -q run_id none.log || fail "run_id: $(cat none.log)"

# A broken file: the one before is used, and that is said.
cp -r "$run" broken
head -c 5000 "$run/ckpt_latest.pth" >broken/ckpt_latest.pth
"$SGTRAIN" resume broken epochs=6 2>broken.log || { cat broken.log; fail "resume after a truncated file"; }
grep -q 'going on from ckpt_previous.pth instead' broken.log || { cat broken.log; fail "the fallback was not announced"; }
"$SGTRAIN_BUILD_DIR/tests/checkpoint_tool" copy broken/ckpt_latest.pth copy.pth || fail "no good file after the fallback"
for name in ckpt_latest ckpt_previous ckpt_best; do : >broken/$name.pth; done  # in place: nobody shares it
"$SGTRAIN" resume broken epochs=7 2>broken.log || { cat broken.log; fail "resume from a kept epoch"; }
grep -q 'going on from ckpt_epoch_6.pth' broken.log || { cat broken.log; fail "the kept epoch was not used"; }

# A full disk (here: a limit of the size of files): the old file stays and training goes on.
cp -r "$run" full
cp full/ckpt_latest.pth before.pth
(trap '' XFSZ; ulimit -f 60; exec "$SGTRAIN" resume full epochs=6) >full.log 2>&1 || { cat full.log; fail "a full disk ended the run"; }
grep -q 'ckpt_latest.pth was not written, training goes on' full.log || { cat full.log; fail "the full disk was not announced"; }
cmp full/ckpt_latest.pth before.pth || fail "the old file did not stay"

# By the clock, within epochs.
"$SGTRAIN" recipe.yaml --run-dir clock epochs=2 training_hyperparams.save_every_minutes=1e-6 2>clock.log || { cat clock.log; fail "save_every_minutes"; }
"$SGTRAIN" recipe.yaml --run-dir none epochs=1 training_hyperparams.save_model=False 2>none.log || { cat none.log; fail "save_model off"; }
[ ! -e none ] || fail "save_model off, but there is $(ls none)"
