#!/usr/bin/env bash
# kill -9 at twenty random moments (200: soak_kill).
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
. "$SGTRAIN_TEST_SUPPORT/kill_run.sh"
kill_run 20
