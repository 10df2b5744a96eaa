#!/usr/bin/env bash
# What ends a run of several processes: the cause is named with its rank, the exit code is right, and no
# process and no temporary file is left. (tests/dist has the launcher's own cases.)
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
mkdir -p tmp
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 200
ranks=(--device cpu --processes 2 --dist-timeout 20)

start() { # FOLDER [argument…]: in the background, with a folder for temporary files of its own
  local folder=$1
  shift
  TMPDIR=$PWD/tmp "$SGTRAIN" recipe.yaml --run-dir "$folder" "${ranks[@]}" "$@" >"$folder.log" 2>&1 &
  pid=$!
  for ((i = 0; i < 600; ++i)); do
    ! grep -q 'SUMMARY OF EPOCH 0' "$folder.log" || return 0
    [ -d /proc/$pid ] || { cat "$folder.log"; fail "$folder ended by itself"; }
    sleep 0.1
  done
  fail "$folder did not start"
}
workers() { ps -o pid= --ppid $pid | tr -d ' '; }
gone() { # PID…: within 5 s
  for ((i = 0; i < 50; ++i)); do
    local left=0 p
    for p in "$@"; do [ ! -d /proc/$p ] || [ "$(awk '{print $3}' /proc/$p/stat 2>/dev/null)" = Z ] || left=1; done
    [ $left = 1 ] || return 0
    sleep 0.1
  done
  fail "left behind: $*"
}
expect() { # FOLDER CODE TEXT…
  local folder=$1 wanted=$2 code=0
  shift 2
  wait $pid || code=$?
  [ $code = "$wanted" ] || { tail -20 "$folder.log"; fail "$folder: exit code $code, not $wanted"; }
  for text in "$@"; do grep -q -- "$text" "$folder.log" || { tail -20 "$folder.log"; fail "$folder does not say '$text'"; }; done
  [ -z "$(ls tmp)" ] || fail "$folder left $(ls tmp)"
}
rank1() { workers | sed -n 2p; }

start killed
all=$(workers)
kill -KILL "$(rank1)"
expect killed 1 'rank 1 of 2 failed' 'killed by SIGKILL'
gone $all

ranks=(--device cpu --processes 2 --dist-timeout 3)
start stalled
all=$(workers)
kill -STOP "$(rank1)"
expect stalled 1 'no answer from rank 1' 'stopped by a signal'
gone $all
ranks=(--device cpu --processes 2 --dist-timeout 20)

start interrupted
all=$(workers)
kill -INT $pid
expect interrupted 130
[ -s interrupted/ckpt_latest.pth ] || fail "nothing was saved"
gone $all

start orphaned
all=$(workers)
kill -KILL $pid
wait $pid || true
gone $all
rm -rf tmp/*

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
