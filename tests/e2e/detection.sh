#!/usr/bin/env bash
# Detection from recipe to scored predictions on generated pictures: the last in-training validation,
# `evaluate`, and the COCO scorer on what `predict` wrote give the same twelve numbers. Then what
# users do with predict: globs, folders, damaged files.
# timeout: 900
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
tools=$SGTRAIN_BUILD_DIR/tests
data=$TMPDIR/data
"$tools/composites_tool" coco "$data" train 32 2 1 > "$TMPDIR/classes"
"$tools/composites_tool" coco "$data" val 12 2 2 > /dev/null
names=$(sed 's/.*/"&"/' "$TMPDIR/classes" | paste -sd,)

"$SGTRAIN" --recipe yolo_nas_finetune dataset_params=finetune_coco_dataset_params data_dir="$data" \
  "class_names=[$names]" pretrained=false imgsz=128 batch=8 val_batch_size=5 workers=1 epochs=6 lr=2e-3 ema=False ++arch_params.bn_momentum=0.3 \
  training_hyperparams.average_best_models=False training_hyperparams.precision=fp32 \
  training_hyperparams.run_validation_freq=6 --device cpu ckpt_root_dir="$TMPDIR/runs" | tail -40
run=$(echo "$TMPDIR"/runs/*/latest)
latest=$run/ckpt_latest.pth

"$SGTRAIN" evaluate --checkpoint "$latest" --output "$TMPDIR/evaluate.json" > /dev/null
"$SGTRAIN" predict --checkpoint "$latest" --like-validation "$data/images/val" --no-images --output "$TMPDIR/val" \
  --coco "$TMPDIR/results.json" --coco-annotations "$data/annotations/instances_val.json"
"$tools/coco_eval_tool" "$data/annotations/instances_val.json" "$TMPDIR/results.json" > "$TMPDIR/scores.json"

# number FILE NAME: the value behind "…NAME": in JSON.
number() { sed -n "s|.*\"[^\"]*$2\": *\\([-+.0-9e]*\\).*|\\1|p" "$1" | head -1; }
ap=$(number "$TMPDIR/evaluate.json" 'COCO_AP@0.50')
awk -v a="${ap:-0}" 'BEGIN {exit !(a > 0.01)}' || fail "AP@0.50 is '$ap': nothing was found, so nothing is compared"
place=0
for name in COCO_AP@0.50:0.95 COCO_AP@0.50 COCO_AP@0.75 COCO_AP_small COCO_AP_medium COCO_AP_large \
  COCO_AR@1 COCO_AR@10 COCO_AR@100 COCO_AR_small COCO_AR_medium COCO_AR_large; do
  place=$((place + 1))
  trained=$(number "$run/metrics.json" "$name")
  evaluated=$(number "$TMPDIR/evaluate.json" "$name")
  scored=$(sed 's/.*"stats": \[\([^]]*\)\].*/\1/' "$TMPDIR/scores.json" | tr -d ' ' | cut -d, -f$place)
  echo "$name: in training $trained, evaluate $evaluated, scorer on predict $scored"
  awk -v a="$trained" -v b="$evaluated" -v c="$scored" 'BEGIN {
    exit !(a != "" && b != "" && c != "" && (a - b)^2 < 1e-18 && (b - c)^2 < 1e-18)}' || fail "$name differs"
done

# Folder, glob and file together; a damaged picture is named, the rest goes on, exit code 3.
pictures=$TMPDIR/pictures
mkdir "$pictures"
cp "$data"/images/val/*0.jpg "$data"/images/val/*1.jpg "$pictures"
echo "no picture" > "$pictures/broken.jpg"
code=0
"$SGTRAIN" predict --checkpoint "$run" "$pictures" "$data/images/val/*2.jpg" --conf 0.05 --output "$TMPDIR/out" \
  --coco "$TMPDIR/out.json" 2> "$TMPDIR/errors" || code=$?
[ $code -eq 3 ] || fail "exit code $code instead of 3: $(cat "$TMPDIR/errors")"
grep -q 'broken.jpg' "$TMPDIR/errors" || fail "the damaged picture is not named"
wanted=$(($(find "$pictures" "$data/images/val" -name '*[01].jpg' -path '*pictures*' | wc -l) + $(ls "$data"/images/val/*2.jpg | wc -l)))
drawn=$(find "$TMPDIR/out" -name '*.jpg' | wc -l)
[ "$drawn" -eq "$wanted" ] || fail "$drawn pictures were drawn instead of $wanted"
[ "$(grep -o '"image":' "$TMPDIR/out/predictions.json" | wc -l)" -eq "$wanted" ] || fail "predictions.json misses pictures"
head -c 1 "$TMPDIR/out.json" | grep -q '\[' || fail "COCO results are no list"

# A name that matches nothing is wrong input.
"$SGTRAIN" predict --checkpoint "$run" --output "$TMPDIR/one" --classes 0 "$data/images/val" > /dev/null 2> "$TMPDIR/errors" ||
  fail "pictures after --classes: $(cat "$TMPDIR/errors")"
code=0
"$SGTRAIN" predict --checkpoint "$run" "$TMPDIR/nowhere" 2> "$TMPDIR/errors" || code=$?
[ $code -eq 2 ] || fail "exit code $code for a missing input"
grep -q "$TMPDIR/nowhere" "$TMPDIR/errors" || fail "the missing input is not named"
