#!/usr/bin/env bash
# Prints a Python that can import the reference implementation (torch, super-gradients): the one that
# SGTRAIN_PEER_PYTHON names, else that of a virtual environment made here on first use.
set -euo pipefail
if [ -n "${SGTRAIN_PEER_PYTHON:-}" ]; then
  echo "$SGTRAIN_PEER_PYTHON"
  exit
fi
venv=$(cd "$(dirname "$0")/../.." && pwd)/.venv-bench-reference
if [ ! -e "$venv/complete" ]; then
  python3 -m venv "$venv"
  pip() { "$venv/bin/pip" install --quiet "$@" >&2; }
  pip torch==2.11.0 torchvision==0.26.0 numpy==1.26.4 setuptools==65.5
  pip --no-deps super-gradients==3.7.1 data-gradients==0.3.2 torchmetrics==0.8.0 albumentations==1.4.10
  pip numpy==1.26.4 scipy==1.13.1 hydra-core omegaconf tqdm boto3 jsonschema Deprecated matplotlib psutil pandas==2.2.3 \
    seaborn einops==0.3.2 treelib==1.6.1 termcolor==1.1.0 packaging stringcase rapidfuzz json-tricks==3.16.1 imagesize \
    rich requests onnx==1.17.0 onnxruntime onnxsim tensorboard opencv-python-headless pycocotools
  touch "$venv/complete"
fi
echo "$venv/bin/python"
