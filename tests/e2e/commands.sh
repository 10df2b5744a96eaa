#!/usr/bin/env bash
# Wrong names and places beyond a recipe's values: each is reported where it was written, before the
# work.
# timeout: 300
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
cd "$TMPDIR"
tiny_set data
tiny_recipe recipe.yaml "$PWD/data" 1

# Unknown names: at the key that gives the name, not at that of its parameters.
t=training_hyperparams
for key in $t.lr_mode $t.warmup_mode $t.loss dataset_params.train_dataloader_params.dataset; do
  expect_output 2 "command line: $key: unknown .*'nothing'" check recipe.yaml $key=nothing
  grep -q ': 1 mistake' out || fail "$key=nothing gives more than one mistake: $(cat out)"
done

# File names that leave the run folder.
for key in ckpt_name ckpt_best_name; do
  expect_output 2 "$t.$key.*no name for a file" check recipe.yaml $t.$key=../../x.pth
done

# Places that cannot be written, found before the data are read.
for each in "recipe.yaml --run-dir recipe.yaml" "recipe.yaml --run-dir recipe.yaml/below"; do
  # shellcheck disable=SC2086 # words
  expect_output 2 'cannot write here: .*recipe.yaml is a file' $each
  grep -q 'images' out && fail "$each: data were read first: $(cat out)"
done
"$SGTRAIN" recipe.yaml ckpt_root_dir=runs > out 2>&1 || fail "training: $(tail -5 out)"
run=$(run_of runs)
expect_output 2 'cannot write here: .*recipe.yaml is a file' evaluate --checkpoint "$run" --output recipe.yaml/x.json
grep -q 'Accuracy' out && fail "evaluate worked for a result that cannot be written: $(cat out)"

# Empty names, as an unset variable of a script gives them.
expect_output 2 'an empty name' predict --checkpoint "$run" ''
expect_output 2 'an empty name' inspect ''
