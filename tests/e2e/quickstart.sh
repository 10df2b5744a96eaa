#!/usr/bin/env bash
# The main job on real images: Fashion-MNIST (a Debian package) from recipe to checkpoint, evaluation,
# predictions and a picture of them. The accuracy is the one the quick start promises.
# timeout: 900
# serial
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
images=/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz
[ -e $images ] || fail "$images is missing (Debian package dataset-fashion-mnist)"
unset OMP_NUM_THREADS  # alone on the machine: all cores

"$SGTRAIN" --recipe quickstart ckpt_root_dir="$TMPDIR/runs"
run=$(echo "$TMPDIR"/runs/*/latest)
for file in ckpt_best.pth ckpt_latest.pth recipe.resolved.yaml results.csv metrics.json; do
  [ -s "$run/$file" ] || fail "the run folder has no $file"
done

"$SGTRAIN" evaluate --checkpoint "$run" --output "$TMPDIR/metrics.json"
accuracy=$(sed -n 's/.*"Accuracy": *\([0-9.]*\).*/\1/p' "$TMPDIR/metrics.json")
echo "test accuracy $accuracy"
awk -v a="${accuracy:-0}" 'BEGIN {exit !(a >= 0.90)}' || fail "test accuracy $accuracy is below 0.90"

"$SGTRAIN" predict --checkpoint "$run" $images --limit 16 --grid --output "$TMPDIR/grid.png" --json "$TMPDIR/grid.json"
[ "$(head -c 8 "$TMPDIR/grid.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail "the grid is no PNG"
[ "$(grep -o '"image"' "$TMPDIR/grid.json" | wc -l)" -eq 16 ] || fail "predict did not answer for 16 images"
