#!/usr/bin/env bash
# Several processes through the program: 2 and 4 ranks with synchronised batch norm equal one on the same
# global batch (fp64: 21 steps with accumulation, clipping and a moving average, 5 steps of YOLO-NAS; fp32:
# the first loss), ranks stay bit-identical (the run compares them after every step), with gradients
# compressed too, a rank may see only negatives, there may be more ranks than images, and metrics do not
# depend on the number of processes, nor on images that do not divide by it, nor on ranks without an image.
# timeout: 900
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
export OMP_NUM_THREADS=1
tools=$SGTRAIN_BUILD_DIR/tests
"$tools/make_data_tool" classification cls 48 12 3
"$tools/make_data_tool" detection det 8 128 2
"$tools/make_data_tool" detection five 20 128 2
"$tools/make_data_tool" detection odd 3 128 2 all
for crowd in 300 5000; do "$tools/make_data_tool" detection crowd$crowd 4 128 2 all crowd=$crowd; done

cat >cls.yaml <<'RECIPE'
defaults:
  - training_hyperparams: default_train_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
architecture: custom_resnet_cifar
arch_params: {structure: [1, 1, 1, 1], width_mult: 0.125, num_classes: 3}
train_dataloader:
val_dataloader:
dataset_params:
  train_dataset_params: {root: cls, transforms: [RandomHorizontalFlip, ToTensor]}
  train_dataloader_params: {dataset: ImageFolder, batch_size: 8, shuffle: True, drop_last: True}
  val_dataset_params: {root: cls, transforms: [ToTensor]}
  val_dataloader_params: {dataset: ImageFolder, batch_size: 5}
training_hyperparams:
  max_epochs: 7          # 42 batches, 21 optimizer steps
  run_validation_freq: 7
  initial_lr: 0.02
  optimizer: SGD
  optimizer_params: {momentum: 0.9, weight_decay: 0.0001}
  batch_accumulate: 2
  clip_grad_norm: 1.0
  sync_bn: True
  precision: fp64
  ema: True
  ema_params: {decay: 0.9, decay_type: constant}
  average_best_models: False
  loss: CrossEntropyLoss
  train_metrics_list: [Accuracy]
  valid_metrics_list: [Accuracy]
  metric_to_watch: Accuracy
  silent_mode: True
experiment_name: tiny
multi_gpu: Off
device: cpu
dist: {check_every: 1}
RECIPE
cat >det.yaml <<'RECIPE'
defaults:
  - training_hyperparams: default_train_params
  - arch_params: yolo_nas_s_arch_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
architecture: yolo_nas_s
arch_params: {num_classes: 2}
train_dataloader:
val_dataloader:
data: det
dataset_params:
  train_dataset_params: &set
    data_dir: ${set}
    images_dir: .
    json_annotation_file: annotations.json
    input_dim: 128
    ignore_empty_annotations: False
    transforms:
      - DetectionPaddedRescale: {input_dim: 128}
      - DetectionStandardize: {max_value: 255.}
      - DetectionTargetsFormatTransform: {output_format: LABEL_CXCYWH}
  train_dataloader_params:
    dataset: COCOFormatDetectionDataset
    batch_size: 4
    collate_fn: DetectionCollateFN
  val_dataset_params: *set
  val_dataloader_params:
    dataset: COCOFormatDetectionDataset
    batch_size: 2
    collate_fn: DetectionCollateFN
training_hyperparams:
  max_epochs: 2          # 4 steps
  run_validation_freq: 2
  initial_lr: 0.001
  optimizer: SGD
  optimizer_params: {momentum: 0.9}
  sync_bn: True
  precision: fp64
  average_best_models: False
  loss: PPYoloELoss
  criterion_params: {num_classes: 2, reg_max: 16, use_static_assigner: False}
  valid_metrics_list:
    - DetectionMetrics:
        score_thres: 0.0
        top_k_predictions: 300
        num_cls: 2
        normalize_targets: True
        post_prediction_callback:
          PPYoloEPostPredictionCallback:
            score_threshold: 0.0
            nms_top_k: 400
            max_predictions: 300
            nms_threshold: 0.7
  metric_to_watch: mAP@0.50:0.95
  silent_mode: True
experiment_name: det
multi_gpu: Off
device: cpu
dist: {check_every: 1}
RECIPE
sed -i '/^data: det$/d' det.yaml
sed -i '1i set: det' det.yaml

run() { # RECIPE FOLDER PROCESSES BATCH [override…]
  local recipe=$1 folder=$2 processes=$3 batch=$4
  shift 4
  "$SGTRAIN" "$recipe" --run-dir "$folder" --processes "$processes" batch_size="$batch" "$@" >"$folder.log" 2>&1 ||
    { tail -30 "$folder.log"; fail "$recipe on $processes processes"; }
}
same_weights() { # A B: equal to 1e-8
  local out
  out=$("$tools/checkpoint_tool" distance "$1/ckpt_latest.pth" "$2/ckpt_latest.pth")
  echo "$1 $2: $(tail -1 <<<"$out")"
  awk '/^distance/ {ok = $2 <= 1e-8} END {exit !ok}' <<<"$out" || { echo "$out"; fail "$1 and $2 differ"; }
}
# same_values A B TOLERANCE: the same names, and numbers that are equal to the tolerance
same_values() {
  paste <(flat "$1") <(flat "$2") | awk -F'\t' -v t="$3" '
    {d = $2 - $4; size = $2 < 0 ? -$2 : $2; if ($1 != $3 || (d < 0 ? -d : d) > t * (1 + size)) {print; bad = 1}}
    END {exit bad || NR == 0}' || fail "$1 and $2 differ"
}
same_losses() { # A B TOLERANCE [NAMES]: losses of the training in results.csv, relative
  for folder in "$1" "$2"; do
    awk -F, -v names="${4:-^Train_.*Loss}" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i ~ names) used[i] = $i}
             NR > 1 {for (i in used) print used[i] NR "\t" $i}' $folder/results.csv | sort >$folder.losses
  done
  paste "$1.losses" "$2.losses" | awk -F'\t' -v t="$3" '
    {d = $2 - $4; if ($1 != $3 || !((d < 0 ? -d : d) <= t * ($2 < 0 ? -$2 : $2))) {print; bad = 1}}
    END {exit bad || NR == 0}' || fail "losses of $1 and $2 differ"
}
flat() { sed -n 's/^ *"\(.*\)": *\([-0-9.e+]*\),*$/\1\t\2/p' "$1"; }

run cls.yaml c1 1 8
run cls.yaml c2 2 4
run cls.yaml c4 4 2
for n in 2 4; do
  same_weights c1 c$n
  same_losses c1 c$n 1e-8
done
[ -s c2/logs/rank1.log ] || fail "rank 1 has no log in the run folder"
grep -q 'Global batch size  *16 = 2 x 4 x 2' c2.log || fail "the banner does not say the global batch size"

# Images alternate between objects and none: of two ranks one sees only negatives.
five=(set=five epochs=1 training_hyperparams.run_validation_freq=1)
run det.yaml d1 1 4 "${five[@]}"
for n in 2 4; do
  run det.yaml d$n $n $((4 / n)) "${five[@]}"
  same_weights d1 d$n
  same_losses d1 d$n 1e-8
done

# The first step in fp32 (one process itself is 1e-5 away from fp64 in YOLO-NAS's smallest loss, hence the
# sum). Later ones drift by themselves: assignment is discrete.
once=(epochs=1 training_hyperparams.precision=fp32 training_hyperparams.max_train_batches=1)
for n in 1 2 4; do
  run cls.yaml cls_first$n $n $((8 / n)) "${once[@]}"
  run det.yaml det_first$n $n $((4 / n)) "${once[@]}"
  same_losses cls_first1 cls_first$n 1e-5
  same_losses det_first1 det_first$n 1e-5 '^Train_.*/loss$'
done

# 204 steps, compared after each.
for compression in none bf16 fp16; do
  run cls.yaml long_$compression 2 4 epochs=34 training_hyperparams.precision=fp32 training_hyperparams.batch_accumulate=1 \
    training_hyperparams.run_validation_freq=34 +dist.compression=$compression
done
run cls.yaml long_four 4 2 epochs=34 training_hyperparams.precision=fp32 training_hyperparams.batch_accumulate=1 \
  training_hyperparams.run_validation_freq=34
if cmp -s long_none/ckpt_latest.pth long_bf16/ckpt_latest.pth; then fail "compression changes nothing"; fi

# More ranks than images: some are shown twice; where that is not wanted, there is no batch.
"$tools/make_data_tool" classification few 3 12 3
few=(epochs=2 training_hyperparams.batch_accumulate=1 training_hyperparams.run_validation_freq=2
  dataset_params.train_dataset_params.root=few dataset_params.val_dataset_params.root=few)
run cls.yaml more_ranks 4 1 "${few[@]}" dataset_params.train_dataloader_params.drop_last=False
code=0
"$SGTRAIN" cls.yaml --run-dir no_batch --processes 4 batch_size=1 "${few[@]}" >no_batch.log 2>&1 || code=$?
[ $code = 2 ] && grep -q '0 batches: 3 images over 4 processes' no_batch.log ||
  { tail no_batch.log; fail "more ranks than images, and drop_last: exit code $code"; }

# A dense picture: the assigner's memory is bounded.
for crowd in 300 5000; do
  run det.yaml dense$crowd 2 2 set=crowd$crowd epochs=1 training_hyperparams.precision=fp32 training_hyperparams.run_validation_freq=1
done

# Metrics of one checkpoint on 1, 2 and 3 processes; 8 images on 3, then 3 images on 4.
for set in det odd; do
  for n in 1 2 3 4; do
    "$SGTRAIN" evaluate det.yaml --checkpoint d1/ckpt_latest.pth --processes $n set=$set --output $set$n.json \
      >evaluate.log 2>&1 || { tail -30 evaluate.log; fail "evaluate on $n processes"; }
    same_values $set$n.json ${set}1.json 1e-12
  done
done
for n in 1 3; do
  "$SGTRAIN" evaluate cls.yaml --checkpoint c1/ckpt_latest.pth --processes $n --output cls$n.json >evaluate.log 2>&1 ||
    { tail -30 evaluate.log; fail "evaluate on $n processes"; }
done
same_values cls3.json cls1.json 1e-12
