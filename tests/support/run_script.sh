#!/usr/bin/env bash
# Runs one script test (tests/e2e/*.sh, tests/peer/*.py) with an empty TMPDIR that is removed after it.
# A Python test runs in the virtual environment that scripts/setup.sh --peers makes; without it the
# test is skipped (exit code 77).
set -euo pipefail
script=$1
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/sgtrain-test.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
cd "$TMPDIR"
case $script in
  *.py)
    venv=$SGTRAIN_SOURCE_DIR/.venv-peer
    if [ ! -e "$venv/complete" ]; then
      echo "skipped: no $venv (scripts/setup.sh --peers makes it)"
      exit 77
    fi
    CUDA_VISIBLE_DEVICES='' "$venv/bin/python" "$script"
    ;;
  *) bash "$script" ;;
esac
