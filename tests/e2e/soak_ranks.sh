#!/usr/bin/env bash
# A hundred starts of two ranks in a row, and fifty epochs, leave no process (hence no port) and no file.
# label: soak
# timeout: 1800
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
. "$SGTRAIN_TEST_SUPPORT/ended_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 1
shared() { ls /dev/shm | wc -l; }
memory=$(shared)
for i in $(seq 100); do
  rm -rf run
  launch run --processes 2
  expect run 0
done
launch long --processes 2 epochs=50
expect long 0
[ "$(shared)" -le "$memory" ] || fail "shared memory is left: $(ls /dev/shm)"
