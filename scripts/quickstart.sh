#!/usr/bin/env bash
# From a bare Debian 12 to a trained and tested model: sets up, builds Release, trains
# recipes/quickstart.yaml on Fashion-MNIST (70,000 images, a Debian package), prints the test
# accuracy, and draws the predictions on 16 test images into one picture.
#
#   scripts/quickstart.sh [key=value…]      overrides of the recipe, for example lr=0.01
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

scripts/setup.sh
scripts/build.sh sgtrain
sgtrain=build/release/bin/sgtrain

"$sgtrain" --recipe quickstart.yaml "$@"

run=checkpoints/quickstart/latest  # the link to the run just made
pictures=$run/predictions.png
echo
"$sgtrain" evaluate --checkpoint $run --output $run/test_metrics.json
"$sgtrain" predict --checkpoint $run /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz \
  --limit 16 --grid --output $pictures
echo
echo "quickstart: test accuracy $(sed -n 's/.*"Accuracy": *\([0-9.]*\).*/\1/p' $run/test_metrics.json)"
echo "quickstart: the checkpoint is $run/ckpt_best.pth; its predictions on 16 test images are drawn in $pictures"
