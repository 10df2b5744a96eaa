# For script tests that train: sourced, not run. A data set of 96 pictures made of the bytes of a file,
# and a recipe that trains a tiny network on it in about a second; every part of a run that has a state
# takes part (moving average, warm-up, schedule, augmentation, dropped paths, callbacks, averaging).
fail() { echo "FAILED: $*"; exit 1; }
export OMP_NUM_THREADS=1

# expect_output CODE PATTERN ARGUMENT…: runs sgtrain; its output, in $TMPDIR/out, must match the extended pattern
# and hold no library's raw text
expect_output() {
  local wanted=$1 pattern=$2 code=0
  shift 2
  "$SGTRAIN" "$@" > "$TMPDIR/out" 2>&1 < /dev/null || code=$?
  [ $code -eq "$wanted" ] || fail "$*: exit code $code instead of $wanted: $(tail -5 "$TMPDIR/out")"
  grep -qE -- "$pattern" "$TMPDIR/out" || fail "$*: nothing matches '$pattern' in: $(tail -12 "$TMPDIR/out")"
  ! grep -qE 'Exception raised from|c10::|std::|yaml-cpp' "$TMPDIR/out" || fail "$*: raw text: $(cat "$TMPDIR/out")"
}

# tiny_set FOLDER: train (64) and test (32) pictures of 12 x 12 pixels in IDX files
tiny_set() {
  local bytes=$SGTRAIN_SOURCE_DIR/tests/golden/checkpoints/ckpt_latest.pth
  mkdir -p "$1"
  idx() { # NAME COUNT SKIP
    { printf "\\0\\0\\10\\3\\0\\0\\0\\$(printf %o "$2")\\0\\0\\0\\14\\0\\0\\0\\14"
      head -c $(($3 + $2 * 144)) "$bytes" | tail -c $(($2 * 144)); } >"$folder/$1-images-idx3-ubyte"
    { printf "\\0\\0\\10\\1\\0\\0\\0\\$(printf %o "$2")"
      for ((i = 0; i < $2; ++i)); do printf "\\$(printf %o $((i * 7 % 10)))"; done; } >"$folder/$1-labels-idx1-ubyte"
  }
  local folder=$1
  idx train 64 4097
  idx t10k 32 20481
}

# tiny_recipe FILE DATA [EPOCHS]
tiny_recipe() {
  cat >"$1" <<RECIPE
defaults:
  - training_hyperparams: default_train_params
  - checkpoint_params: default_checkpoint_params
  - _self_
  - variable_setup
architecture: custom_resnet_cifar
arch_params: {structure: [1, 1, 1, 1], width_mult: 0.0625, num_classes: 10, droppath_prob: 0.2}
train_dataloader:
val_dataloader:
dataset_params:
  train_dataset_params: &train
    root: $2
    train: True
    transforms: [RandomHorizontalFlip, ToTensor]
  train_dataloader_params: {dataset: FashionMNIST, batch_size: 8, num_workers: 1, shuffle: True}
  val_dataset_params: {root: $2, train: False, transforms: [ToTensor]}
  val_dataloader_params: {dataset: FashionMNIST, batch_size: 16}
training_hyperparams:
  max_epochs: ${3:-24}
  initial_lr: {default: 0.02, linear: 0.05}
  lr_mode: CosineLRScheduler
  lr_warmup_epochs: 1
  optimizer: SGD
  batch_accumulate: 3
  ema: True
  ema_params: {decay: 0.5, decay_type: constant}
  loss: CrossEntropyLoss
  train_metrics_list: [Accuracy]
  valid_metrics_list: [Accuracy]
  metric_to_watch: CrossEntropyLoss
  greater_metric_to_watch_is_better: False
  keep_last_n: 1
  save_ckpt_epoch_list: [2]
  phase_callbacks:
    - EarlyStop: {monitor: CrossEntropyLoss, mode: min, patience: 50}
experiment_name: tiny
multi_gpu: Off
device: cpu
RECIPE
}

# the run folder of a fresh run below a root
run_of() { readlink -f "$1"/tiny/latest; }

# results.csv without the columns of measured times
numbers() {
  awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i ~ / Time$/) t[i]} {for (i in t) $i = ""; print}' "$1/results.csv"
}

# same_end A B: the folders of two runs hold the same checkpoints and results
same_end() {
  local name
  [ "$(cd "$1" && echo *.pth)" = "$(cd "$2" && echo *.pth)" ] || fail "other files: $(ls "$1") and $(ls "$2")"
  for name in $(cd "$1" && echo *.pth); do
    # The one before the last may be of the moment of an interruption.
    [ $name != ckpt_previous.pth ] || continue
    "$SGTRAIN_BUILD_DIR/tests/checkpoint_tool" compare "$1/$name" "$2/$name" || fail "$name of $2 differs"
  done
  diff <(numbers "$1") <(numbers "$2") || fail "results.csv of $2 differs"
}

# random_sleep FROM TO: seconds
random_sleep() { sleep "$(awk -v r=$RANDOM -v a="$1" -v b="$2" 'BEGIN {print a + (b - a) * r / 32767}')"; }
