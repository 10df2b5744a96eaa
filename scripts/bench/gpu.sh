#!/usr/bin/env bash
# Trains resnet50 (224 px) and yolo_nas_s (640 px) on all GPUs that are there, gradients over NCCL (one GPU
# too: a group of one), and prints images/s, memory and where a step's time goes. Without a GPU: exit 2.
#   scripts/bench/gpu.sh [GPUS]     how many, default all
# SGTRAIN_BENCH_DEVICE=cpu runs the same at a toy size over Gloo with GPUS processes (default 1), which
# tests this script.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
device=${SGTRAIN_BENCH_DEVICE:-cuda}
if [ -n "${SGTRAIN:-}" ]; then
  build=$SGTRAIN_BUILD_DIR
else
  source "$root/scripts/bench/build.sh"
  bench_build sgtrain make_data_tool
  SGTRAIN=$build/bin/sgtrain
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

gpus=$("$SGTRAIN" doctor 2>/dev/null | sed -n 's/^ *GPUs  *//p' | head -n 1)
if [ "$device" = cuda ]; then
  case $gpus in
    [1-9]*) count=${1:-${gpus%% *}} ;;
    *) echo "gpu.sh: no GPU can be used here: ${gpus#none: }" >&2; exit 2 ;;
  esac
  cls=(224 64 128) det=(640 16 64) epochs=3  # size, batch of a process, images of a process
else
  count=${1:-1} cls=(32 2 4) det=(64 2 4) epochs=2
fi
"$build/tests/make_data_tool" classification cls $((cls[2] * count)) "${cls[0]}" 10
"$build/tests/make_data_tool" detection det $((det[2] * count)) "${det[0]}" 10 all

common="
defaults:
  - training_hyperparams: default_train_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
train_dataloader:
val_dataloader:
experiment_name: gpu
multi_gpu: AUTO
num_gpus: $count
device: $device
processes: $count
training_hyperparams:
  max_epochs: $epochs
  run_validation_freq: $epochs
  max_valid_batches: 1
  initial_lr: 0.0001
  optimizer: AdamW
  sync_bn: False
  precision: auto
  save_model: False
"
cat >resnet50.yaml <<RECIPE
$common
  loss: CrossEntropyLoss
  valid_metrics_list: [Accuracy]
  metric_to_watch: Accuracy
architecture: resnet50
arch_params: {num_classes: 10}
dataset_params:
  train_dataset_params: {root: cls, transforms: [RandomHorizontalFlip, ToTensor]}
  train_dataloader_params: {dataset: ImageFolder, batch_size: ${cls[1]}, shuffle: True, drop_last: True, num_workers: 4, min_samples: $((cls[2] * count * 8))}
  val_dataset_params: {root: cls, transforms: [ToTensor]}
  val_dataloader_params: {dataset: ImageFolder, batch_size: ${cls[1]}}
RECIPE
cat >yolo_nas_s.yaml <<RECIPE
${common/  - checkpoint_params/  - arch_params: yolo_nas_s_arch_params
  - checkpoint_params}
  loss: PPYoloELoss
  criterion_params: {num_classes: 10, reg_max: 16, use_static_assigner: False}
  metric_to_watch: PPYoloELoss/loss
  greater_metric_to_watch_is_better: False
architecture: yolo_nas_s
arch_params: {num_classes: 10}
dataset_params:
  train_dataset_params: &set
    data_dir: det
    images_dir: .
    json_annotation_file: annotations.json
    input_dim: ${det[0]}
    transforms:
      - DetectionPaddedRescale: {input_dim: ${det[0]}}
      - DetectionStandardize: {max_value: 255.}
      - DetectionTargetsFormatTransform: {output_format: LABEL_CXCYWH}
  train_dataloader_params: {dataset: COCOFormatDetectionDataset, batch_size: ${det[1]}, shuffle: True, drop_last: True, num_workers: 4, collate_fn: DetectionCollateFN, min_samples: $((det[2] * count * 8))}
  val_dataset_params: *set
  val_dataloader_params: {dataset: COCOFormatDetectionDataset, batch_size: ${det[1]}, collate_fn: DetectionCollateFN}
RECIPE

# One process joins a group of its own when it is given an address.
[ "$count" != 1 ] || export RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 20000))
echo "$(date +%F); $device: $gpus; $count process(es)"
for model in resnet50 yolo_nas_s; do
  "$SGTRAIN" $model.yaml >$model.log 2>&1 || { tail -n 20 $model.log; echo "gpu.sh: $model failed" >&2; exit 1; }
  echo "$model"
  # The first epoch warms up.
  sed -n 's/^\(.*\)\(  Device  *\)/  /p; s/^epoch \([1-9][0-9]*: .*\)/  epoch \1/p; s/^\(training took .*\)/  \1/p; s/^\(gradients: .*\)/  \1/p' $model.log
done
