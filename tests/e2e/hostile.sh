#!/usr/bin/env bash
# Command lines and recipes that no one should write: each ends with exit code 2 and a message of
# ours, none with a crash or a library's raw text.
# timeout: 300
set -euo pipefail
failed=0
number=0
# refuse PATTERN ARGUMENT…
refuse() {
  local pattern=$1 code=0
  shift
  number=$((number + 1))
  "$SGTRAIN" "$@" > "$TMPDIR/out" 2>&1 < /dev/null || code=$?
  if [ $code -ne 2 ]; then
    echo "FAILED: $*: exit code $code instead of 2: $(tail -5 "$TMPDIR/out")"
    failed=1
  elif ! grep -qE -- "$pattern" "$TMPDIR/out"; then
    echo "FAILED: $*: nothing matches '$pattern' in: $(head -c 1500 "$TMPDIR/out")"
    failed=1
  elif grep -qE 'Exception raised from|c10::|what\(\)|std::|terminate called|yaml-cpp|basic_string|stoi|bad_alloc|filesystem error' "$TMPDIR/out"; then
    echo "FAILED: $*: raw text in: $(head -c 1500 "$TMPDIR/out")"
    failed=1
  fi
}
# recipe NAME: stdin becomes a recipe on top of quickstart
recipe() { { echo 'defaults: [quickstart, _self_]'; cat; } > "$TMPDIR/$1.yaml"; }
t=training_hyperparams
d=dataset_params.train_dataloader_params

# Commands and options.
refuse "did you mean 'train'" trian quickstart
refuse "did you mean 'evaluate'" evalute --checkpoint x.pth
refuse "did you mean 'predict'" predcit a.jpg
refuse "did you mean 'quickstart'" quickstrt
refuse "did you mean '--recipe'" train --recpie quickstart
refuse 'processes' quickstart --device cpu --processes 0
refuse 'processes' quickstart --device cpu --processes many
refuse 'overfit' quickstart --overfit-batches -1
refuse 'unknown device' check quickstart --device tpu
refuse 'GPUs were asked for' check quickstart --gpus 99
refuse 'GPUs were asked for' check quickstart --device cuda:77
refuse 'num_gpus' check quickstart --gpus ten
refuse 'ADDRESS:PORT' quickstart --rdzv-endpoint node0 --nnodes 2
refuse 'no such checkpoint' evaluate --checkpoint "$TMPDIR"/none.pth
refuse 'neither ckpt_best.pth nor' evaluate --checkpoint "$TMPDIR"
refuse 'unknown kind' list lossez
refuse 'no run folder' resume "$TMPDIR"
refuse 'cfg' train quickstart --cfg all

# Recipe files that are none.
mkdir "$TMPDIR/folder.yaml"
: > "$TMPDIR/empty.yaml"
head -c 4096 /dev/urandom > "$TMPDIR/noise.yaml"
printf 'a: [1, 2\nb: }' > "$TMPDIR/broken.yaml"
printf -- '- a\n- b\n' > "$TMPDIR/list.yaml"
printf 'a: &a [x, x]\nb: &b [*a, *a]\nc: *nowhere\n' > "$TMPDIR/alias.yaml"
printf 'defaults: [loop]\n' > "$TMPDIR/loop.yaml"
printf 'a: 1\na: 2\n' > "$TMPDIR/twice.yaml"
printf 'a:\n\tb: 1\n' > "$TMPDIR/tab.yaml"
printf '\xff\xfe\x00a' > "$TMPDIR/utf16.yaml"
refuse 'folder.yaml' check "$TMPDIR/folder.yaml"
refuse 'empty.yaml' check "$TMPDIR/empty.yaml"
refuse 'noise.yaml' check "$TMPDIR/noise.yaml"
refuse 'broken.yaml:' check "$TMPDIR/broken.yaml"
refuse 'map of keys' check "$TMPDIR/list.yaml"
refuse 'alias.yaml' check "$TMPDIR/alias.yaml"
refuse 'loop' check "$TMPDIR/loop.yaml"
refuse 'twice.yaml:2' check "$TMPDIR/twice.yaml"
refuse 'tab.yaml:2' check "$TMPDIR/tab.yaml"
refuse 'utf16.yaml' check "$TMPDIR/utf16.yaml"
refuse 'no recipe' check ""
refuse 'recipe' check "$TMPDIR/日本語.yaml"
refuse 'recipe' check /dev/null

# Values.
refuse 'command line.*finite' check quickstart $t.initial_lr=1e999
refuse 'expected number' check quickstart lr=nan
refuse 'at least 0' check quickstart lr=-1
refuse 'expected integer' check quickstart epochs=1.5
refuse 'expected integer' check quickstart epochs=99999999999999999999
refuse 'at least 1, found 0' check quickstart epochs=0
refuse 'max_train_batches.*at least 1' check quickstart $t.max_train_batches=0
refuse 'max_valid_batches.*at least 1' check quickstart $t.max_valid_batches=-5
refuse 'in \[1, 1000000\]' check quickstart batch=0
refuse 'in \[1, 1000000\]' check quickstart batch=10000000000
refuse 'in \[0, 1024\]' check quickstart workers=5000
refuse 'num_classes' check quickstart arch_params.num_classes=0
refuse 'num_classes' check quickstart arch_params.num_classes=2000000000
refuse 'four stages' check quickstart 'arch_params.structure=[1,1]'
refuse 'structure' check quickstart 'arch_params.structure=[1,1,1,99999999]'
refuse 'width_mult' check quickstart arch_params.width_mult=1e30
refuse 'list of' check quickstart 'arch_params.structure=abc'
refuse "command line: architecture: unknown architecture 'resnet1'" check quickstart architecture=resnet1
refuse 'arch_params.structure: belongs to another architecture.*~arch_params.structure' check quickstart architecture=resnet18
refuse "command line: $t.optimizer: unknown optimizer 'AdamX', did you mean 'Adam'" check quickstart optimizer=AdamX
refuse 'criterion_params: does not act.*keep one of them' check quickstart "$t.loss={CrossEntropyLoss:{smooth_eps:0.1}}"
refuse "metric_to_watch: 'Acuracy' is none.*did you mean 'Accuracy'" check quickstart $t.metric_to_watch=Acuracy
refuse 'earlystop.*none of this run' check quickstart "++$t.phase_callbacks=[{EarlyStop:{monitor:Los,patience:2}}]"
refuse 'one_of|one of auto' check quickstart $t.precision=fp12
refuse 'takes the name of a file' check quickstart "$t=5"
refuse 'experiment_name' check quickstart name=a/../../b
refuse 'experiment_name' check quickstart "name="
refuse "'=' is missing|key" check quickstart =5
refuse 'blank' check quickstart 'lr =0.1'
refuse 'key' check quickstart 'größe=3'
refuse 'key' check quickstart "$(printf 'a%.0s' {1..5000})=1"
refuse 'empty part' check quickstart a..b=1
refuse 'command line' check quickstart '~nothing'
refuse 'command line' check quickstart 'lr=[1,2'
refuse 'command line' check quickstart 'lr=${oc.env:NO_SUCH_VARIABLE_HERE}'
refuse 'cycle|itself' check quickstart 'lr=${lr}'
refuse 'imgsz' check yolo_nas_finetune data_dir=x 'class_names=[a]' pretrained=false imgsz=-640
refuse 'no such file or folder' check yolo_nas_finetune data="$TMPDIR/nowhere" pretrained=false
refuse 'no known kind' check yolo_nas_finetune data="$TMPDIR/folder.yaml/" pretrained=false
refuse 'data' check yolo_nas_finetune data="$TMPDIR/empty.yaml" pretrained=false
refuse 'no weights' check yolo_nas_finetune data_dir=x 'class_names=[a]' pretrained=nosuch
refuse 'no checkpoint at' check quickstart pretrained="$TMPDIR/none.pth"
printf '{' > "$TMPDIR/a.json"
refuse 'a.json' check yolo_nas_finetune "data=[$TMPDIR/a.json,$TMPDIR/a.json]" pretrained=false
recipe indent <<'YAML'
training_hyperparams:
  train_metrics_list:
    - Accuracy:
      x: 1
YAML
refuse 'indented too little' check "$TMPDIR/indent.yaml"
recipe kinds <<'YAML'
training_hyperparams: {max_epochs: [1], ema: maybe, initial_lr: {default: .nan}, run_validation_freq: -1}
arch_params: {num_classes: "ten"}
YAML
refuse '[4-9] mistakes' check "$TMPDIR/kinds.yaml"

# Checkpoints that are none.
for file in empty noise broken; do
  mv "$TMPDIR/$file.yaml" "$TMPDIR/$file.pth"
  refuse "$file.pth" inspect "$TMPDIR/$file.pth"
  refuse "$file.pth" evaluate --checkpoint "$TMPDIR/$file.pth"
  refuse "$file.pth" predict --checkpoint "$TMPDIR/$file.pth" "$TMPDIR/list.yaml" --output "$TMPDIR/drawn"
done
refuse 'x.jpg' predict --checkpoint "$TMPDIR/noise.pth" "$TMPDIR/x.jpg"

# Paths that cannot be used.
refuse 'File name too long|no recipe' check "$(printf 'b%.0s' {1..300}).yaml"
touch "$TMPDIR/file"
refuse 'run folders cannot be written.*is no folder' check quickstart ckpt_root_dir="$TMPDIR/file/below"
refuse 'File name too long' predict --checkpoint "$(printf 'c%.0s' {1..300})" "$TMPDIR/file"
refuse 'file' predict --checkpoint "$TMPDIR/file" "$TMPDIR/file"

# check --data: everything about every split at once.
tool=$SGTRAIN_BUILD_DIR/tests/composites_tool
"$tool" yolo "$TMPDIR/yolo" train 5 2 1 > /dev/null
"$tool" yolo "$TMPDIR/yolo" val 3 2 2 > /dev/null
echo '19 0.5 0.5 0.1 0.1' >> "$(ls "$TMPDIR"/yolo/labels/train/*.txt | head -1)"
echo '0 0.5 0.5 0.1' >> "$(ls "$TMPDIR"/yolo/labels/train/*.txt | head -1)"
echo '18 0.5 0.5 0.1 0.1' >> "$(ls "$TMPDIR"/yolo/labels/val/*.txt | head -1)"
refuse '2 mistakes' check yolo_nas_finetune data="$TMPDIR/yolo" pretrained=false batch=2 --data
for what in 'class 19' '4 values' 'class 18'; do
  grep -q "$what" "$TMPDIR/out" || { echo "FAILED: check --data does not say '$what': $(cat "$TMPDIR/out")"; failed=1; }
done
"$tool" voc "$TMPDIR/voc" train 5 2 1 > /dev/null
"$tool" voc "$TMPDIR/voc" val 3 2 2 > /dev/null
refuse '0 batches' check yolo_nas_finetune data="$TMPDIR/voc" pretrained=false batch=16 --data
[ "$number" -ge 60 ] || { echo "FAILED: only $number cases"; failed=1; }
exit $failed
