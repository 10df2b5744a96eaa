#!/usr/bin/env bash
# Runs one script test (tests/e2e/*.sh, tests/peer/*.py) with an empty TMPDIR that is removed after it.
# A Python test runs in the virtual environment that scripts/test.sh --all makes, with the CUDA
# libraries of its torch wheel found; without that environment it is skipped (exit code 77).
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
      echo "skipped: no $venv (scripts/test.sh --all makes it)"
      exit 77
    fi
    libraries=$(printf '%s:' "$venv"/lib/python3*/site-packages/nvidia/*/lib)
    LD_LIBRARY_PATH=$libraries/usr/local/cuda/lib64 CUDA_VISIBLE_DEVICES='' "$venv/bin/python" "$script"
    ;;
  *) bash "$script" ;;
esac
