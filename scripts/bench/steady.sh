#!/usr/bin/env bash
# What a long run must not do: grow, keep files open, stall on its checkpoints or between epochs, or take
# longer over the validation of a network that knows nothing yet.
#
#   scripts/bench/steady.sh [CHECKPOINT]     of a trained YOLO-NAS; with it the last number is measured
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/scripts/bench/build.sh"
checkpoint=${1:+$(realpath "$1")}
bench_build sgtrain make_data_tool
sgtrain=$build/bin/sgtrain
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$build/tests/make_data_tool" classification images 64 64 4
cat >recipe.yaml <<'RECIPE'
defaults:
  - training_hyperparams: default_train_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
architecture: resnet50
arch_params: {num_classes: 4}
train_dataloader:
val_dataloader:
dataset_params:
  train_dataset_params: {root: images, transforms: [RandomHorizontalFlip, ToTensor]}
  train_dataloader_params: {dataset: ImageFolder, batch_size: 16, num_workers: 1, shuffle: True}
  val_dataset_params: {root: images, transforms: [ToTensor]}
  val_dataloader_params: {dataset: ImageFolder, batch_size: 16, num_workers: 1}
training_hyperparams:
  max_epochs: 6
  initial_lr: 0.001
  optimizer: Adam
  ema: True
  average_best_models: False
  loss: CrossEntropyLoss
  train_metrics_list: [Accuracy]
  valid_metrics_list: [Accuracy]
  metric_to_watch: Accuracy
experiment_name: steady
multi_gpu: Off
device: cpu
RECIPE
run() { # LOG [argument…]
  local log=$1
  shift
  "$sgtrain" recipe.yaml --run-dir run "$@" >"$log" 2>&1 || { tail -20 "$log"; exit 1; }
  rm -rf run
}

# ResNet-50 with Adam and a moving average: four times its weights, written after every epoch.
run large.log
grep -o 'a checkpoint takes [^;]*' large.log
grep -o 'the training waited.*' large.log
grep -o 'at most .* between epochs.*' large.log

# Fifty epochs of a small network; the command of a callback looks at the process.
look='{ShellCallback: {phase: VALIDATION_EPOCH_END, command: "echo {epoch} $(grep VmRSS /proc/$PPID/status | tr -dc 0-9) $(ls /proc/$PPID/fd | wc -l) >>looks"}}'
run small.log architecture=custom_resnet_cifar '++arch_params.structure=[1,1,1,1]' ++arch_params.width_mult=0.25 epochs=50 \
  "training_hyperparams.phase_callbacks=[$look]"
awk '$1 == 2 {first = $2} {last = $2; files[$3]} END {
  n = 0; for (f in files) {n++; list = list " " f}
  printf "memory after epoch 2: %d KiB, after epoch %d: %d KiB (%+.2f %%); open files:%s\n",
    first, NR - 1, last, 100 * (last / first - 1), list}' looks

[ -n "$checkpoint" ] || exit 0
seconds() { # COMMAND…: of processor time, the least of three
  local best=1e9 now
  local TIMEFORMAT=%U
  for _ in 1 2 3; do
    now=$({ time "$@" >evaluate.log 2>&1; } 2>&1) || { tail -20 evaluate.log >&2; exit 1; }
    best=$(awk -v t="$now" -v m="$best" 'BEGIN {print t < m ? t : m}')
  done
  echo "$best"
}
trained=$(seconds "$sgtrain" evaluate --checkpoint "$checkpoint" --device cpu)
untrained=$(seconds "$sgtrain" evaluate --recipe "$(dirname "$checkpoint")/recipe.resolved.yaml" --device cpu)
awk -v t="$trained" -v u="$untrained" 'BEGIN {
  printf "validation: trained %.2f s of processor time, untrained %.2f s, ratio %.2f\n", t, u, u / t}'
