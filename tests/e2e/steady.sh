#!/usr/bin/env bash
# Twenty epochs leave the process as they found it: memory and open files (scripts/bench/steady.sh takes
# fifty, and measures the stalls too).
# timeout: 120
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 20
look='{ShellCallback: {phase: VALIDATION_EPOCH_END, command: "echo {epoch} $(grep VmRSS /proc/$PPID/status | tr -dc 0-9) $(ls /proc/$PPID/fd | wc -l) >>looks"}}'
"$SGTRAIN" recipe.yaml --run-dir run "training_hyperparams.phase_callbacks=[$look]" 2>log || { cat log; fail "the run"; }
cat looks
[ "$(wc -l <looks)" = 20 ] || fail "$(wc -l <looks) looks"
awk '$1 == 2 {memory = $2; files = $3}
  $1 > 2 && $2 > 1.03 * memory {print "memory grew"; bad = 1}
  $1 > 2 && $3 > files + 1 {print "files stay open"; bad = 1}  # one checkpoint may be on its way
  END {exit bad || memory < 1000}' looks || fail "see above"
