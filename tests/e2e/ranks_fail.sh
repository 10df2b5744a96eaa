#!/usr/bin/env bash
# What ends a run of several processes from outside: the cause is named with its rank, the exit code is
# right, and no process and no temporary file is left. (tests/dist has the launcher's own cases.)
# timeout: 400
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
. "$SGTRAIN_TEST_SUPPORT/ended_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 200
start() { # FOLDER [argument…]: until it trains
  launch "$1" --processes 2 --dist-timeout "${timeout:-20}" "${@:2}"
  wait_for "$1" grep -q 'SUMMARY OF EPOCH 0' "$1.log"
}
rank1() { workers | sed -n 2p; }

start killed
kill -KILL "$(rank1)"
expect killed 1 'rank 1 of 2 failed' 'killed by SIGKILL'

timeout=3 start stalled
kill -STOP "$(rank1)"
expect stalled 1 'no answer from rank 1' 'stopped by a signal'

for signal in INT TERM HUP; do
  start by_$signal
  kill -$signal $pid
  expect by_$signal $((128 + $(kill -l $signal))) "stopped by SIG$signal"
  [ -s by_$signal/ckpt_latest.pth ] || fail "SIG$signal: nothing was saved"
done

start orphaned
all=$(workers)
kill -KILL $pid
wait $pid || true
gone $all
rm -rf tmp/*

# Signals before training begins: one rank may be gone while another waits for it.
for after in 0.02 0.1 0.2 0.3 0.4 0.6; do
  launch early$after --processes 2 --dist-timeout 120
  sleep $after
  began=$SECONDS
  kill -TERM $pid
  expect early$after 143
  [ $((SECONDS - began)) -le 20 ] || fail "SIGTERM $after s after the start: it took $((SECONDS - began)) s"
done

# The terminal goes: its first process gets SIGHUP, and when that ends everything in the foreground.
cat >in_terminal <<'SCRIPT'
trap : HUP
"$SGTRAIN" recipe.yaml --run-dir hung_up --device cpu --processes 2
echo $? >code
SCRIPT
# (env: a test may run where SIGHUP is ignored.)
TMPDIR=$PWD/tmp env --default-signal=HUP script -qfc 'bash in_terminal; exit' hung_up.log >/dev/null 2>&1 </dev/null &
pid=$!
wait_for hung_up grep -q 'SUMMARY OF EPOCH 0' hung_up.log
kill -KILL $pid
wait $pid || true
for ((i = 0; i < 300; ++i)); do [ ! -s code ] || break; sleep 0.1; done
[ "$(cat code)" = 129 ] || { tail -20 hung_up/logs/rank0.log; fail "closed terminal: exit code $(cat code)"; }
grep -q 'stopped by SIGHUP' hung_up/logs/rank0.log || { tail hung_up/logs/rank0.log; fail "closed terminal: not named"; }
[ -s hung_up/ckpt_latest.pth ] || fail "closed terminal: nothing was saved"
nothing_left "the closed terminal"

# Two processes by hand whose recipes differ.
port=$((20000 + $$ % 20000))
by_hand() { RANK=$1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$SGTRAIN" recipe.yaml --device cpu --dist-timeout 60 "lr=$2" >"hand$1.log" 2>&1; }
by_hand 1 0.2 &
pid=$!
code=0; by_hand 0 0.1 || code=$?
[ $code = 1 ] || { cat hand0.log; fail "recipes that differ: exit code $code"; }
wait $pid && fail "recipes that differ: rank 1 went on"
grep -q 'the recipe differs between processes' hand0.log || { cat hand0.log; fail "recipes that differ"; }
grep -q 'environment started 2 processes, which overrides' hand0.log || { cat hand0.log; fail "no word of the override"; }

# One process by hand that asks for a group of its own ends as a plain one.
tiny_recipe recipe.yaml "$PWD/data" 2
"$SGTRAIN" recipe.yaml --run-dir plain 2>plain.log || { cat plain.log; fail "one process"; }
RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$SGTRAIN" recipe.yaml --run-dir group 2>group.log || { cat group.log; fail "a group of one"; }
same_end plain group
