#!/usr/bin/env bash
# predict and evaluate as users call them: tiny pictures, one output picture, Ultralytics' words,
# files of other trainers, no weights at all.
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set "$TMPDIR/data"
tiny_recipe "$TMPDIR/tiny.yaml" "$TMPDIR/data" 1
"$SGTRAIN" "$TMPDIR/tiny.yaml" ckpt_root_dir="$TMPDIR/runs" training_hyperparams.max_valid_batches=1 > "$TMPDIR/train" 2>&1 ||
  fail "training: $(tail -5 "$TMPDIR/train")"
run=$(run_of "$TMPDIR/runs")
# ppm FILE WIDTH HEIGHT: a picture of zeros
ppm() { { printf 'P6 %d %d 255\n' "$2" "$3"; head -c $(($2 * $3 * 3)) /dev/zero; } > "$1"; }

# Weights must be named; the recipe's max_valid_batches is said.
expect_output 2 'no weights are given.*' evaluate "$TMPDIR/tiny.yaml"
expect_output 2 'nothing to evaluate' evaluate
expect_output 2 'no weights .coco.' evaluate "$TMPDIR/tiny.yaml" pretrained=coco
expect_output 0 'only the first 1 batches' evaluate --checkpoint "$run"
expect_output 0 'Accuracy' evaluate "$run" training_hyperparams.max_valid_batches=null
! grep -q 'only the first' "$TMPDIR/out" || fail "all batches are scored, and yet: $(cat "$TMPDIR/out")"
expect_output 0 'Accuracy' val model="$run/ckpt_latest.pth"
# D10: a folder for temporary files that cannot be used is named; B8: names of any script.
cp "$run/ckpt_latest.pth" "$TMPDIR/größe 模型.pth"
expect_output 0 'Accuracy' evaluate "$TMPDIR/größe 模型.pth"
code=0
TMPDIR=/dev/null/x "$SGTRAIN" evaluate "$TMPDIR/größe 模型.pth" > "$TMPDIR/out" 2>&1 || code=$?
[ $code -eq 2 ] && grep -q '/dev/null/x' "$TMPDIR/out" || fail "a wrong TMPDIR: exit code $code: $(cat "$TMPDIR/out")"
expect_output 0 '中文 名/RUN' "$TMPDIR/tiny.yaml" ckpt_root_dir="$TMPDIR/named" 'name="中文 名"' training_hyperparams.max_train_batches=1
test "$(ls "$TMPDIR/runs")" = tiny || fail "evaluate left files"

# Pictures of any size, one of them impossible; the rest is predicted.
mkdir "$TMPDIR/pictures"
for size in 1x1 1x40 40x1 3x200 12x12; do ppm "$TMPDIR/pictures/$size.ppm" ${size%x*} ${size#*x}; done
echo 'no picture' > "$TMPDIR/pictures/text.jpg"
: > "$TMPDIR/pictures/empty.png"
expect_output 3 'text.jpg' predict --checkpoint "$run" "$TMPDIR/pictures" --output "$TMPDIR/some"
grep -q 'empty.png' "$TMPDIR/out" || fail "empty.png is not named"
grep -q '5 images predicted, 2 skipped' "$TMPDIR/out" || fail "not five pictures: $(cat "$TMPDIR/out")"

# The network itself refuses one picture of a batch: named, and the others are predicted. A file that
# does not say how pictures are prepared gets a remark on colours.
keys=(--model resnet18_cifar --num-classes 10)
golden=$SGTRAIN_SOURCE_DIR/tests/golden/checkpoints
expect_output 2 'does not name its architecture' predict --checkpoint "$golden/bare_state_dict.pth" "$TMPDIR/pictures"
expect_output 2 'do not fit' predict --checkpoint "$golden/bare_state_dict.pth" "${keys[@]}" "$TMPDIR/pictures"
expect_output 2 'is no category|no class is called' predict --checkpoint "$run" --classes lion "$TMPDIR/pictures"

# One input, one picture; a folder otherwise.
picture=$TMPDIR/pictures/12x12.ppm
expect_output 0 '1 images predicted' predict --checkpoint "$run" "$picture" --output "$TMPDIR/one.png"
[ -f "$TMPDIR/one.png" ] || fail "--output one.png wrote no file"
expect_output 2 'names one picture, but there are 7' predict --checkpoint "$run" "$TMPDIR/pictures" --output "$TMPDIR/more.png"
expect_output 2 'must name one' predict --checkpoint "$run" "$TMPDIR/pictures" --grid --output "$TMPDIR/grid"
expect_output 2 'cannot be written' predict --checkpoint "$run" "$picture" --output "$TMPDIR/one.png/below"
expect_output 2 'cannot be written' predict --checkpoint "$run" "$picture" --output "$TMPDIR/f" --coco "$TMPDIR/one.png/x.json"
expect_output 2 'no such file' predict --checkpoint "$run" "$picture" --output "$TMPDIR/f" --coco-annotations "$TMPDIR/none.json"

# A run folder is its best checkpoint for every command.
expect_output 0 '10 classes: ' inspect "$run"
grep -q 'ckpt_best.pth' "$TMPDIR/out" || fail "inspect RUN does not say which file it shows"

# Ultralytics' words.
expect_output 0 '1 images predicted' predict model="$run" source="$picture" conf=0.1 iou=0.5 max_det=5 device=cpu save=True \
  project="$TMPDIR/ultra" name=first
[ -f "$TMPDIR/ultra/first/predictions.json" ] || fail "project= and name= give no folder"
expect_output 0 '1 images predicted' yolo classify predict model="$run" source="$picture" output="$TMPDIR/y1"
expect_output 0 '1 images predicted' yolo task=classify mode=predict model="$run" source="$picture" output="$TMPDIR/y2"
expect_output 2 "did you mean 'source'" predict model="$run" sorce="$picture"
expect_output 2 'conf' predict model="$run" source="$picture" conf=2
