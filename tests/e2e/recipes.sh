#!/usr/bin/env bash
# Every shipped recipe: no mistakes, and export → check → export gives the same text. Then the short
# keys, and what the help says against the README.
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }

"$SGTRAIN" list recipes > "$TMPDIR/names"
grep -qx quickstart "$TMPDIR/names" || fail "list recipes does not show quickstart"
grep -q variable_setup "$TMPDIR/names" && fail "list recipes shows variable_setup, which is no recipe"
mkdir "$TMPDIR/flat"  # not the working folder: a file there goes before a shipped recipe
while read -r name; do
  needs=()
  [ "$name" = yolo_nas_finetune ] && needs=(data_dir=somewhere "class_names=[a,b]" pretrained=false)
  "$SGTRAIN" check "$name" "${needs[@]}" > "$TMPDIR/out" 2>&1 || fail "check $name: $(cat "$TMPDIR/out")"
  "$SGTRAIN" export-recipe "$name" "${needs[@]}" > "$TMPDIR/flat/$name.yaml"
  "$SGTRAIN" check "$TMPDIR/flat/$name.yaml" > "$TMPDIR/out" 2>&1 || fail "check of exported $name: $(cat "$TMPDIR/out")"
  "$SGTRAIN" export-recipe "$TMPDIR/flat/$name.yaml" > "$TMPDIR/again"
  cmp "$TMPDIR/flat/$name.yaml" "$TMPDIR/again" || fail "$name exported twice differs"
  "$SGTRAIN" train "$name" "${needs[@]}" --cfg job --resolve | cmp - "$TMPDIR/flat/$name.yaml" || fail "--cfg job of $name"
done < "$TMPDIR/names"

# Missing values are one mistake each, not unknown keys as well.
code=0
"$SGTRAIN" check yolo_nas_finetune 2> "$TMPDIR/errors" || code=$?
[ $code -eq 2 ] || fail "a recipe with missing values gave exit code $code"
[ "$(grep -c 'data_dir' "$TMPDIR/errors")" -eq 1 ] || fail "data_dir is not one mistake: $(cat "$TMPDIR/errors")"
grep -q 'unknown key' "$TMPDIR/errors" && fail "missing values are called unknown: $(cat "$TMPDIR/errors")"

# An option that may be given several times takes one value each time: overrides may follow it.
mkdir "$TMPDIR/own" "$TMPDIR/more"
"$SGTRAIN" check --recipe quickstart --config-dir "$TMPDIR/own" --config-dir "$TMPDIR/more" lr=0.1 epochs=1 \
  > "$TMPDIR/out" 2>&1 || fail "overrides after --config-dir: $(cat "$TMPDIR/out")"

# data= takes every format and sets classes everywhere.
tool=$SGTRAIN_BUILD_DIR/tests/composites_tool
for format in coco yolo voc; do
  data=$TMPDIR/$format
  "$tool" $format "$data" train 6 3 1 > "$TMPDIR/classes"
  "$tool" $format "$data" val 4 3 2 > /dev/null
  "$SGTRAIN" check yolo_nas_finetune data="$data" pretrained=false batch=2 --data > "$TMPDIR/out" 2>&1 || fail "data=$format: $(cat "$TMPDIR/out")"
  "$SGTRAIN" export-recipe coco2017_yolo_nas_s data="$data" batch=2 > "$TMPDIR/flat.yaml"
  [ "$(grep -cE 'num_(classes|cls): 3$' "$TMPDIR/flat.yaml")" -ge 4 ] || fail "data=$format: classes are not set everywhere"
  grep -qE 'num_(classes|cls): 80$' "$TMPDIR/flat.yaml" && fail "data=$format: 80 classes are left somewhere"
  "$SGTRAIN" check "$TMPDIR/flat.yaml" --data > "$TMPDIR/out" 2>&1 || fail "exported data=$format: $(cat "$TMPDIR/out")"
done
"$SGTRAIN" check yolo_nas_finetune data="$TMPDIR/yolo/data.yaml" pretrained=false batch=2 --data > /dev/null || fail "data=data.yaml"

# Short keys that act, and that say so when their value is wrong.
"$SGTRAIN" export-recipe yolo_nas_finetune data="$TMPDIR/voc" mosaic=0.5 patience=3 imgsz=320 > "$TMPDIR/flat.yaml"
grep -q 'DetectionMosaic' "$TMPDIR/flat.yaml" || fail "mosaic=0.5 adds no mosaic"
for wrong in mosaic=2 freeze=-1 cache=disk fraction=0 fraction=1.5 close_mosaic=-1 batch=auto; do
  code=0
  "$SGTRAIN" check yolo_nas_finetune data="$TMPDIR/voc" $wrong > "$TMPDIR/out" 2>&1 || code=$?
  [ $code -eq 2 ] || fail "$wrong gave exit code $code: $(cat "$TMPDIR/out")"
done
"$SGTRAIN" check yolo_nas_finetune data="$TMPDIR/voc" pretrained=false freeze=5 cache=ram fraction=0.5 close_mosaic=2 > /dev/null

# Options that the README shows exist.
grep -oE '(^|[ `/])sgtrain [^#`]*' "$SGTRAIN_SOURCE_DIR/README.md" | grep -oE -- '--[a-z][a-z-]+' | sort -u > "$TMPDIR/shown"
[ "$(wc -l < "$TMPDIR/shown")" -ge 5 ] || fail "the README shows hardly an option of sgtrain"
for command in train resume evaluate predict check export-recipe list inspect doctor; do
  "$SGTRAIN" $command --help
done > "$TMPDIR/help"
"$SGTRAIN" --help >> "$TMPDIR/help"
grep -ohE -- '--[a-z][a-z-]+' "$TMPDIR/help" | sort -u > "$TMPDIR/known"
unknown=$(comm -23 "$TMPDIR/shown" "$TMPDIR/known")
[ -z "$unknown" ] || fail "the README shows options that no command has: $unknown"
