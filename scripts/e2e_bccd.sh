#!/usr/bin/env bash
# The whole job on real pictures, checked against pycocotools: trains recipes/bccd_yolo_nas_s on BCCD
# (blood cells, Pascal VOC), then compares COCO_AP of the last in-training validation, of
# `sgtrain evaluate`, and of pycocotools on what `sgtrain predict` wrote; draws the test split.
#
#   scripts/e2e_bccd.sh [--data DIR] [--epochs N] [--quick] [--output DIR] [key=value…]
#
# --quick: two epochs of a few batches, which only shows that the three numbers agree. Needs
# pycocotools: scripts/setup.sh --peers, or PEER_PYTHON=python. Takes about 12 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "e2e_bccd: FAILED: $*"; exit 1; }
data=../shared/data/bccd
output=e2e_bccd
sgtrain=${SGTRAIN:-build/release/bin/sgtrain}
python=${PEER_PYTHON:-.venv-peer/bin/python}
overrides=()
least=0.89  # mAP@0.50 that the full run must reach
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --data) data=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --epochs) overrides+=("epochs=$2"); least=0; shift 2 ;;
    --quick)
      overrides+=(epochs=2 training_hyperparams.max_train_batches=3 training_hyperparams.lr_warmup_steps=2)
      least=0
      shift ;;
    *=*) overrides+=("$1"); shift ;;
    *) fail "unknown argument $1" ;;
  esac
done
data=$(realpath "$data")
[ -d "$data/JPEGImages" ] || fail "$data holds no JPEGImages"
"$python" -c 'import pycocotools' || fail "no pycocotools: scripts/setup.sh --peers"
mkdir -p "$output"

started=$(date +%s)
"$sgtrain" --recipe bccd_yolo_nas_s data_dir="$data" ckpt_root_dir="$output/runs" "${overrides[@]}"
echo "e2e_bccd: training took $(($(date +%s) - started)) s"
run=$output/runs/bccd_yolo_nas_s/latest
latest=$run/ckpt_latest.pth  # its weights are those of the last validation

"$sgtrain" evaluate --checkpoint "$latest" --output "$output/evaluate.json"
mapfile -t val < <(sed "s|.*|$data/JPEGImages/&.jpg|" "$data/ImageSets/Main/val.txt")
"$python" scripts/e2e_bccd.py truth "$data" val "$output/truth.json"
"$sgtrain" predict --checkpoint "$latest" --like-validation "${val[@]}" --no-images --output "$output/val" \
  --coco "$output/results.json" --coco-annotations "$output/truth.json"
"$python" scripts/e2e_bccd.py compare "$run" "$output" "$least"

mapfile -t test < <(sed "s|.*|$data/JPEGImages/&.jpg|" "$data/ImageSets/Main/test.txt")
"$sgtrain" predict --checkpoint "$run" "${test[@]}" --output "$output/test"
drawn=$(find "$output/test" -name '*.jpg' | wc -l)
[ "$drawn" -eq "${#test[@]}" ] || fail "$drawn pictures drawn of ${#test[@]}"
echo "e2e_bccd: $drawn test pictures with boxes in $output/test"
