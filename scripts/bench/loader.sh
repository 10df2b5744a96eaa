#!/usr/bin/env bash
# Loader against a bare OpenCV loop and the reference implementation: loader.sh [VOC_FOLDER] [options
# of loader.py]. SGTRAIN_PEER_PYTHON names a Python with the peers; else a virtual environment is made.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${SGTRAIN_BUILD_DIR:-$root/build}
folder=${1:-$root/../shared/data/bccd}
[ $# -gt 0 ] && shift
cmake --build "$build" --target loader_bench_tool
python=${SGTRAIN_PEER_PYTHON:-}
if [ -z "$python" ]; then
  venv=$root/.venv-bench-loader
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet torch==2.11.0 torchvision==0.26.0 numpy==1.26.4 opencv-python-headless==4.9.0.80 setuptools==65.5
    "$venv/bin/pip" install --quiet --no-deps super-gradients==3.7.1 data-gradients torchmetrics==0.8.0 albumentations==1.4.10
    "$venv/bin/pip" install --quiet numpy==1.26.4 scipy==1.13.1 hydra-core omegaconf tqdm boto3 jsonschema Deprecated \
      matplotlib psutil einops==0.3.2 treelib==1.6.1 termcolor==1.1.0 packaging stringcase rapidfuzz json-tricks==3.16.1 \
      imagesize rich requests onnx==1.17.0 tensorboard
    touch "$venv/complete"
  fi
  python=$venv/bin/python
fi
exec "$python" "$root/scripts/bench/loader.py" "$build/tests/loader_bench_tool" "$folder" "$@"
