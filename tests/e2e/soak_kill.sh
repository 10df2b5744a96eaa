#!/usr/bin/env bash
# kill -9 at two hundred random moments.
# label: soak
# timeout: 1800
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
. "$SGTRAIN_TEST_SUPPORT/kill_run.sh"
kill_run 200
