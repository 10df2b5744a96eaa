#!/usr/bin/env bash
# Training steps against PyTorch with the reference implementation's models and losses, then the time
# from start to the first batch against its recipe run. Arguments go to train_step.py (cases,
# --threads, --rounds, --clock, --pick). SGTRAIN_BENCH_COCO names the small COCO folder of the second
# part (annotations/{train,val}.json, images/{train,val}).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/scripts/bench/build.sh"
coco=${SGTRAIN_BENCH_COCO:-$root/../shared/data/coco_mini}
bench_build train_step_tool sgtrain
python=$("$root/scripts/bench/reference_python.sh")
"$python" "$root/scripts/bench/train_step.py" --tool "$build/tests/train_step_tool" --python "$python" "$@"
if [ -d "$coco" ]; then
  "$python" "$root/scripts/bench/first_batch.py" "$build/bin/sgtrain" "$coco" --python "$python"
else
  echo "left out: start to first batch (no folder $coco)"
fi
