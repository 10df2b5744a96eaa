#!/usr/bin/env bash
# Prints a Python that can import the reference implementation (torch, super-gradients, OpenCV): the one
# that SGTRAIN_PEER_PYTHON names, else that of a virtual environment made here on first use on top of
# the tests' one (scripts/setup.sh --peers), which has torch without its CUDA libraries.
set -euo pipefail
if [ -n "${SGTRAIN_PEER_PYTHON:-}" ]; then
  echo "$SGTRAIN_PEER_PYTHON"
  exit
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
peers=${SGTRAIN_PEER_VENV:-$root/.venv-peer} venv=$root/.venv-bench
if [ ! -e "$venv/complete" ]; then
  [ -e "$peers/complete" ] || "$root/scripts/setup.sh" --peers >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
  (cd "$peers"/lib/python3*/site-packages && pwd) >"$(echo "$venv"/lib/python3*/site-packages)/peers.pth"
  pip() { "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >&2; }
  pip --no-deps super-gradients==3.7.1 data-gradients==0.3.2 torchmetrics==0.8.0 albumentations==1.4.10 \
    onnxruntime==1.18.1 onnxsim==0.4.36 opencv-python-headless==4.9.0.80 platformdirs
  pip numpy==1.26.4 scipy==1.13.1 hydra-core==1.3.2 omegaconf==2.3.0 tqdm boto3 jsonschema Deprecated matplotlib \
    psutil pandas==2.2.3 seaborn einops==0.3.2 treelib==1.6.1 termcolor==1.1.0 stringcase rapidfuzz \
    json-tricks==3.16.1 imagesize rich requests onnx==1.17.0 werkzeug scikit-image==0.24.0 pydantic
  CRASH_HANDLER=FALSE "$venv/bin/python" -c 'import cv2, super_gradients, torch' >&2
  touch "$venv/complete"
fi
echo "$venv/bin/python"
