#!/usr/bin/env bash
# Wrong input of many kinds: exit code 2, and a message that says what, where and what to do.
# timeout: 300
set -euo pipefail
failed=0
# expect NAME CODE PATTERN ARGUMENT…: runs sgtrain; its output must match the extended pattern.
expect() {
  local name=$1 wanted=$2 pattern=$3 code=0
  shift 3
  "$SGTRAIN" "$@" > "$TMPDIR/out" 2>&1 < /dev/null || code=$?
  if [ $code -ne "$wanted" ]; then
    echo "FAILED: $name: exit code $code instead of $wanted: $(tail -5 "$TMPDIR/out")"
    failed=1
  elif ! grep -qE -- "$pattern" "$TMPDIR/out"; then
    echo "FAILED: $name: nothing matches '$pattern' in: $(tail -12 "$TMPDIR/out")"
    failed=1
  fi
}
root=ckpt_root_dir=$TMPDIR/runs
tool=$SGTRAIN_BUILD_DIR/tests/composites_tool
data=$TMPDIR/data
"$tool" voc "$data" train 5 2 1 > /dev/null
"$tool" voc "$data" val 3 2 2 > /dev/null
detection=(yolo_nas_finetune data="$data" pretrained=false imgsz=64 workers=0 --device cpu $root)

expect "C1 metric to watch" 2 "did you mean 'Accuracy'" quickstart training_hyperparams.metric_to_watch=Acuracy $root
expect "C1 wrong threshold" 2 'mAP@0.50' "${detection[@]}" training_hyperparams.metric_to_watch=mAP@0.60
cat > "$TMPDIR/six.yaml" <<'YAML'
defaults: [quickstart, _self_]
arch_params:
  width_mult: wide
training_hyperparams:
  max_epochs: -3
  epoch: 7
  optimizer: AdamX
  initial_lr: fast
dataset_params:
  train_dataloader_params:
    batchsize: 3
YAML
expect "C3 six mistakes" 2 '6 mistakes' check "$TMPDIR/six.yaml"
for line in 3 5 6 8 11; do
  grep -qE "six.yaml:$line: " "$TMPDIR/out" || { echo "FAILED: C3: line $line is not named: $(cat "$TMPDIR/out")"; failed=1; }
done
grep -q "did you mean" "$TMPDIR/out" || { echo "FAILED: C3: no nearest name"; failed=1; }
cat > "$TMPDIR/indent.yaml" <<'YAML'
defaults: [quickstart, _self_]
training_hyperparams:
  max_epochs: ${train_dataloader_params.batch_size}
YAML
expect "C4 half a path" 2 'dataset_params.train_dataloader_params.batch_size' check "$TMPDIR/indent.yaml"
expect "C6 data folder" 2 "$TMPDIR/nowhere" yolo_nas_finetune data_dir=nowhere pretrained=false "class_names=[a,b]" $root
expect "C7 DP" 2 'DDP' check quickstart multi_gpu=DP
expect "C7 no GPUs" 2 'device: cpu' check quickstart multi_gpu=AUTO num_gpus=0
expect "C7 Off and 4" 2 'multi_gpu is Off' check quickstart multi_gpu=Off num_gpus=4
expect "C7 what mode" 2 'Off, AUTO or DDP' check quickstart multi_gpu=sometimes
expect "C7 GPUs on the CPU" 2 'processes N' quickstart --gpus 2 --device cpu $root
expect "C7 a list and a number" 2 'device names 3 GPUs' quickstart --device 0,1,2 --gpus 2 $root
expect "C7 99 GPUs" 2 'processes N' quickstart --gpus 99 $root
expect "C10 weights offline" 2 'coco' "${detection[@]/pretrained=false/pretrained=coco}" batch=2
expect "C12 resume path" 2 'no such checkpoint' quickstart training_hyperparams.resume_path="$TMPDIR/no.pth" $root
expect "C12 nothing to resume" 2 'no run folder' resume "$TMPDIR/no"
expect "B8 folder in a name" 2 'experiment_name' quickstart name=../up $root
expect "D1 no batch" 2 '0 batches' "${detection[@]}" batch=16
expect "unknown recipe" 2 "did you mean 'quickstart'" quickstrat
expect "unknown key" 2 "max_epochs" check quickstart training_hyperparams.max_epoch=3
expect "no recipe" 2 'no recipe given' train
expect "sweep without -m" 2 'needs -m' check quickstart lr=0.1,0.2
touch "$TMPDIR/x.so"
expect "plug-in refused" 2 'no-exec' check quickstart --plugin "$TMPDIR/x.so" --no-exec
expect "preempt signal" 2 'FOO' quickstart --preempt-signal FOO $root

# C13: a second run has a folder of its own; -m makes one run of each alternative. D2: a rest of one.
expect "-m" 0 'run 2 of 2' -m "${detection[@]}" batch=4 epochs=1 name=sweep lr=1e-4,2e-4 \
  training_hyperparams.max_train_batches=1 training_hyperparams.max_valid_batches=1
[ "$(find "$TMPDIR/runs/sweep" -mindepth 1 -maxdepth 1 -type d -name 'RUN_*' | wc -l)" -eq 2 ] || { echo "FAILED: C13: not two run folders"; failed=1; }
grep -h '^  initial_lr' "$TMPDIR"/runs/sweep/RUN_*/recipe.resolved.yaml | sort -u | wc -l | grep -qx 2 || { echo "FAILED: -m: both runs have one rate"; failed=1; }

# Everything once, nothing kept.
before=$(find "$TMPDIR/runs" | wc -l)
expect "dry run" 0 'time per epoch' "${detection[@]}" batch=2 --dry-run
grep -q 'peak memory' "$TMPDIR/out" && grep -q 'disk' "$TMPDIR/out" || { echo "FAILED: dry run: $(cat "$TMPDIR/out")"; failed=1; }
[ "$(find "$TMPDIR/runs" | wc -l)" -eq "$before" ] || { echo "FAILED: the dry run left files"; failed=1; }

# Frozen parts stay as they were drawn, the rest moves; a checkpoint alone can be evaluated.
expect "freeze" 0 'best' "${detection[@]}" batch=2 epochs=1 name=frozen freeze=backbone fraction=0.8 cache=ram --overfit-batches 2
checkpoint=$TMPDIR/alone.pth
cp "$TMPDIR"/runs/frozen/latest/ckpt_latest.pth "$checkpoint"
expect "evaluate a checkpoint alone" 0 'COCO_AP@0.50' evaluate --checkpoint "$checkpoint"
expect "freeze what is not there" 2 'trunk' "${detection[@]}" batch=2 epochs=1 freeze=trunk
exit $failed
