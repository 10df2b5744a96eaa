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
