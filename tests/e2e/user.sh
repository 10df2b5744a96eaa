#!/usr/bin/env bash
# What a user sees of a run and does with it: banner, progress on a terminal, JSON logs, silence, the last
# table, results; then scores of its checkpoints, and of test sets alone.
# timeout: 240
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 4
sed -i '/^  phase_callbacks:/,/EarlyStop/d' recipe.yaml
run() { # FOLDER [argument…]: stdout and stderr into files of their own
  local folder=$1
  shift
  "$SGTRAIN" recipe.yaml --run-dir "$folder" "$@" >"$folder.out" 2>"$folder.err" || { cat "$folder.err"; fail "$folder"; }
}
says() { grep -qE -- "$2" "$1" || { cat "$1"; fail "$1 does not say '$2'"; }; }
# value FILE NAME: of a JSON file with one value a line
value() { sed -n "s|^ *\"$2\": *\\([-+.0-9e]*\\).*|\\1|p" "$1" | head -1; }
same() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a != "" && b != "" && (a - b)^2 < 1e-20)}' || fail "$3: $1 and $2"; }

# Messages on stderr, results on stdout. Mixed precision on the CPU says what it became.
run plain training_hyperparams.mixed_precision=True
says plain.err '^  Device .*cpu.*1 process, (fp32|bf16)$'
says plain.err '^  Global batch size  *24 = 1 x 8 x 3$'
says plain.err '^  Learning rate (default|linear) .*0\.0[25], weight decay'
says plain.err 'SUMMARY OF EPOCH 3'
says plain.err 'Best until now = '
says plain.err 'per step .* ms, .* ms waiting for data'
says plain.err '[0-9]+ % was not training; at most .* s between epochs besides validation'
says plain.out '^Validation  *last  *best  *averaged$'
says plain.out '^  Accuracy  *[0-9.]+  *[0-9.]+  *[0-9.]+$'
says plain.out '^best CrossEntropyLoss = [0-9.]+ in epoch [0-3]$'
says plain.out '^predict with it: sgtrain predict --checkpoint .*ckpt_best.pth'
[ "$(wc -l <plain/results.csv)" = 5 ] || fail "results.csv: $(cat plain/results.csv)"
for column in Train_CrossEntropyLoss Train_Accuracy Valid_CrossEntropyLoss Valid_Accuracy LR/default \
  'Train Epoch Time' 'Train Iter Time' 'Train Data Time'; do
  head -1 plain/results.csv | tr , '\n' | grep -x "$column" >/dev/null || fail "results.csv has no $column"
done
same "$(value plain/metrics.json epoch)" 3 "epoch of metrics.json"
same "$(value plain/metrics.json Valid_Accuracy)" \
  "$(awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "Valid_Accuracy") c = i} {v = $c} END {print v}' plain/results.csv)" \
  "metrics.json and results.csv"

run quiet -q
[ ! -s quiet.err ] || fail "--quiet says $(cat quiet.err)"
says quiet.out '^best CrossEntropyLoss'

run json --json-logs
if grep -v '^{.*}$' json.err; then fail "a line that is no JSON object"; fi
says json.err '"level":"info".*"epoch":0,.*"Train_CrossEntropyLoss":[0-9.]+,.*"Valid_Accuracy":[0-9.]+'
[ "$(grep -c '"epoch":[0-3],' json.err)" = 4 ] || fail "not one message an epoch"

# On a terminal one line is drawn again and again.
script -qec "stty cols 250; $SGTRAIN recipe.yaml --run-dir terminal epochs=2 --no-color" terminal.txt >/dev/null </dev/null || fail "on a terminal"
tr '\r' '\n' <terminal.txt >lines.txt
says lines.txt 'Train epoch 0:  *[0-9]+% [0-9]+/8 \[[0-9:]+ left, [0-9.]+ images/s, iter_time=[0-9.]+, data_time=[0-9.]+, CrossEntropyLoss='
if grep -q '::\|: :' lines.txt; then fail "two colons: $(grep '::\|: :' lines.txt | head -3)"; fi

# Twice the same bits, with loader threads.
run again training_hyperparams.deterministic=True training_hyperparams.mixed_precision=True \
  dataset_params.train_dataloader_params.num_workers=2
same_end plain again

# Any checkpoint: the moving average as in training, raw weights as in a run without it, the mean.
score() { # FILE [argument…]
  "$SGTRAIN" evaluate recipe.yaml --checkpoint "$@" --output score.json training_hyperparams.mixed_precision=True \
    >score.out 2>&1 || { cat score.out; fail "evaluate $*"; }
  value score.json CrossEntropyLoss
}
run raw ema=False training_hyperparams.mixed_precision=True
same "$(score plain/ckpt_latest.pth)" "$(value plain/metrics.json Valid_CrossEntropyLoss)" "the moving average"
same "$(score plain/ckpt_latest.pth --raw)" "$(value raw/metrics.json Valid_CrossEntropyLoss)" "raw weights"
# The table has six digits.
averaged=$(awk '$1 == "CrossEntropyLoss" {print $4}' plain.out)
[ "$(printf %.6f "$(score plain/average_model.pth)")" = "$averaged" ] || fail "the averaged model scores $averaged in training"

# Test sets alone: no other set is named.
{
  sed '/^train_dataloader:/d; /^val_dataloader:/d; /^dataset_params:/,/^training_hyperparams:/d' recipe.yaml | sed '/^  max_epochs/,$d'
  cat <<RECIPE
test_dataloaders: {extra: null, again: null}
dataset_params:
  test_dataset_params: {root: $PWD/data, train: False, transforms: [ToTensor]}
  test_dataloader_params: {dataset: FashionMNIST, batch_size: 16}
training_hyperparams:
RECIPE
  sed -n '/^  max_epochs/,$p' recipe.yaml
} >tests.yaml
"$SGTRAIN" evaluate tests.yaml --test-loaders --checkpoint plain/ckpt_latest.pth --output tests.json \
  training_hyperparams.mixed_precision=True 2>tests.log || { cat tests.log; fail "--test-loaders"; }
for name in extra again; do
  same "$(value tests.json "${name}_CrossEntropyLoss")" "$(value plain/metrics.json Valid_CrossEntropyLoss)" "test set $name"
done
[ "$(grep -c CrossEntropyLoss tests.json)" = 2 ] || fail "other values: $(cat tests.json)"
code=0; "$SGTRAIN" evaluate recipe.yaml --test-loaders --checkpoint plain/ckpt_latest.pth 2>tests.log || code=$?
[ $code = 2 ] && grep -q 'names no test set' tests.log || { cat tests.log; fail "no test set: exit code $code"; }

# Without a training set.
grep -v '^train_dataloader' recipe.yaml | sed '/^  train_dataset_params/,/^  train_dataloader_params/d' >valid.yaml
"$SGTRAIN" evaluate valid.yaml --checkpoint plain/ckpt_latest.pth >valid.log 2>&1 || { cat valid.log; fail "no training set"; }
