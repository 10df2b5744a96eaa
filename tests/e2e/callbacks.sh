#!/usr/bin/env bash
# Callbacks as a user writes them: a Plateau schedule, pictures of batches, timers, a shell command.
# timeout: 120
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 4
hyper() { echo "training_hyperparams.$1"; }
plateau='{ReduceLROnPlateau: {mode: max, patience: 0, factor: 0.1, threshold: 2.0, threshold_mode: abs, phase: VALIDATION_EPOCH_END, metric_name: Accuracy}}'
shell='{ShellCallback: {phase: VALIDATION_EPOCH_END, command: "echo {epoch} {metric} {Accuracy} {unknown} >>told"}}'
failing='{ShellCallback: {phase: TRAIN_EPOCH_END, command: "exit 3"}}'
"$SGTRAIN" recipe.yaml --run-dir run "$(hyper lr_mode)=$plateau" "$(hyper lr_warmup_epochs)=0" "$(hyper initial_lr)=0.1" \
  "$(hyper phase_callbacks)=[ImageLoggingCallback, TimerCallback, $shell, $failing]" 2>log || { cat log; fail "the run"; }

# Never better by 2: every look but the first lowers the rate.
[ "$(awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "LR") c = i} NR > 1 {printf "%g ", $c}' run/results.csv)" = \
  "0.1 0.01 0.001 0.0001 " ] || fail "rates: $(cat run/results.csv)"
for tag in train_images/0 train_images/2 timer/train_batch_ms timer/epoch_sec; do
  grep -q "$tag" run/events.out.tfevents.* || fail "no $tag in the event file"
done
if grep -q train_images/3 run/events.out.tfevents.*; then fail "more than three pictures of a batch"; fi
[ "$(wc -l <told)" = 4 ] || fail "the command ran $(wc -l <told) times: $(cat told)"
awk 'NF != 4 || $1 != NR - 1 || $2 + 0 <= 0 || $4 != "{unknown}" {exit 1}' told || fail "placeholders: $(cat told)"
[ "$(grep -c 'ShellCallback: exit code 3' log)" = 4 ] || { cat log; fail "a command that failed was not told of"; }

# --no-exec refuses commands before anything runs.
code=0; "$SGTRAIN" recipe.yaml --run-dir refused --no-exec "$(hyper phase_callbacks)=[$shell]" 2>log || code=$?
[ $code = 2 ] || fail "--no-exec: exit code $code"
grep -q 'refused by --no-exec' log || { cat log; fail "--no-exec says nothing"; }
[ ! -e refused ] || fail "--no-exec made a run folder"

# Typing mistakes are named with the nearest right name.
code=0; "$SGTRAIN" recipe.yaml --run-dir refused "$(hyper phase_callbacks)=[ShellCalback]" 2>log || code=$?
[ $code = 2 ] && grep -q "did you mean 'ShellCallback'" log || { cat log; fail "an unknown callback"; }
"$SGTRAIN" list callbacks -q >callbacks
grep -q '^ImageLoggingCallback$' callbacks || fail "list callbacks: $(cat callbacks)"
"$SGTRAIN" list training-params >params
for name in max_epochs initial_lr lr_mode keep_best_k save_every_minutes precise_bn average_best_models; do
  grep -q "^ *$name" params || fail "list training-params has no $name"
done
