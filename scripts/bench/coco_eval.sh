#!/usr/bin/env bash
# COCO scoring against pycocotools and faster-coco-eval. Arguments go to coco_eval.py
# (--images, --detections, --objects, --categories); without any, the three cases of the README.
# SGTRAIN_PEER_PYTHON names a Python with numpy and the peers; else a virtual environment is made.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/scripts/bench/build.sh"
bench_build coco_eval_tool
python=${SGTRAIN_PEER_PYTHON:-}
if [ -z "$python" ]; then
  venv=$root/.venv-bench-coco
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet numpy==1.26.4 pycocotools==2.0.11 faster-coco-eval==1.8.0
    touch "$venv/complete"
  fi
  python=$venv/bin/python
fi
bench() { "$python" "$root/scripts/bench/coco_eval.py" "$build/tests/coco_eval_tool" "$@"; }
if [ $# -gt 0 ]; then
  bench "$@"
else
  bench
  bench --detections 300
  bench --images 1500 --objects 2000 --detections 2000 --skip-peers
fi
