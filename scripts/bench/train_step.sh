#!/usr/bin/env bash
# Training steps against PyTorch with the reference implementation's models and losses. Arguments go
# to train_step.py (cases, --threads, --rounds, --clock).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${SGTRAIN_BUILD_DIR:-$root/build}
cmake --build "$build" --target train_step_tool
python=$("$root/scripts/bench/reference_python.sh")
exec "$python" "$root/scripts/bench/train_step.py" --tool "$build/tests/train_step_tool" --python "$python" "$@"
