#!/usr/bin/env bash
# What ends a run of several processes from inside, or must not: a plug-in makes one rank fail.
# timeout: 400
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
. "$SGTRAIN_TEST_SUPPORT/ended_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 3
ranks=(--processes 2 --dist-timeout 30)
start() { # FOLDER FAULT [argument…]
  launch "$1" "${ranks[@]}" --plugin "$SGTRAIN_BUILD_DIR/tests/fault_plugin.so" \
    "training_hyperparams.phase_callbacks=[{Fault: {$2}}]" "${@:3}"
}
soon() { # NAME: the run has ended soon after the fault
  local took=$(($(date +%s) - $(stat -c %Y fault)))
  [ $took -le 10 ] || fail "$1: ended $took s after the fault"
}

start exception 'what: throw'
expect exception 1 'rank 1 of 2 failed on' 'exit code 1' 'an injected exception'
soon exception
start memory 'what: memory'
expect memory 1 'rank 1 of 2 failed on' "can't allocate memory"
soon memory
start main_memory 'what: memory, rank: 0'
expect main_memory 1 'rank 0 of 2 failed on' "can't allocate memory"
soon main_memory
start crash 'what: crash'
expect crash 1 'rank 1 of 2 failed on' 'killed by SIGSEGV'
soon crash

# A picture that only rank 1 cannot read.
"$SGTRAIN_BUILD_DIR/tests/make_data_tool" classification pictures 16 12 2
second=$(find pictures -name '*.png' | sort | sed -n 2p)
echo "no picture" >"$second"
data=dataset_params
launch unreadable "${ranks[@]}" batch_size=4 arch_params.num_classes=2 "~$data.train_dataset_params.train" "~$data.val_dataset_params.train" \
  $data.train_dataset_params.root="$PWD/pictures" $data.train_dataloader_params.dataset=ImageFolder \
  $data.val_dataset_params.root="$PWD/pictures" $data.val_dataloader_params.dataset=ImageFolder \
  $data.train_dataloader_params.shuffle=False +$data.train_dataloader_params.bad_images=error
expect unreadable 1 'rank 1 of 2 failed on' "$(basename "$second")"

# Neither at work nor listening: the second Ctrl-C ends it.
start stubborn 'what: stall'
wait_for stubborn test -e fault
kill -INT $pid
sleep 1
[ -d /proc/$pid ] || fail "a stalled rank ended by itself"
began=$SECONDS
kill -INT $pid
expect stubborn 130 'second SIGINT'
[ $((SECONDS - began)) -le 10 ] || fail "the second SIGINT took $((SECONDS - began)) s"

# A rank that goes astray is found, and so is the tensor.
start stray 'what: stray' +dist.check_every=1
expect stray 1 'processes are out of step' "first 'conv1.weight'"

# No number on one rank: the step is skipped on all.
start nan 'what: nan' +dist.check_every=1
expect nan 0 'this step is skipped'

# A validation that takes much longer than the time-out, on one rank only.
ranks=(--processes 2 --dist-timeout 5)
start slow 'what: slow, seconds: 0.6' val_batch_size=1 epochs=1
expect slow 0
# … and a signal meanwhile ends it within a batch.
start slow_stopped 'what: slow, seconds: 1' val_batch_size=1 epochs=1
wait_for slow_stopped test -e fault
began=$SECONDS
kill -TERM $pid
expect slow_stopped 143 'stopped by SIGTERM'
[ $((SECONDS - began)) -le 10 ] || fail "SIGTERM in a long validation took $((SECONDS - began)) s"
[ -s slow_stopped/ckpt_latest.pth ] || fail "nothing was saved in a long validation"
