#!/usr/bin/env bash
# `sgtrain list` of every kind: names alone, and tables whose columns stay apart.
# timeout: 60
set -euo pipefail
fail() { echo "FAILED: $*"; exit 1; }
"$SGTRAIN" list training-params >table
"$SGTRAIN" list training-params -q >names
[ "$(wc -l <table)" = "$(wc -l <names)" ] || fail "$(wc -l <table) lines, $(wc -l <names) names"
if grep -q ' ' names; then fail "-q prints more than names: $(grep -m1 ' ' names)"; fi
[ -z "$(sort names | uniq -d)" ] || fail "listed twice: $(sort names | uniq -d)"
# Two blanks at least between name, type and default, which begin in the same column everywhere.
columns=$(sed -nE 's/^(    [^ ]+ {2,})([a-z ]+[a-z]) {2,}(default|required).*/\1/p' table | awk '{print length($0)}' | sort -u)
[ "$(echo "$columns" | wc -l)" = 1 ] || fail "columns: $columns"
[ "$(grep -cE '^    [^ ]+ {2,}[a-z ]+[a-z] {2,}(default .|required)' table)" = "$(wc -l <names)" ] ||
  fail "$(grep -vE '^    [^ ]+ {2,}[a-z ]+[a-z] {2,}(default .|required)' table | head -3)"
grep -qE '^    zero_weight_decay_on_bias_and_bn  +boolean  +default false' table || fail "long names: $(cat table)"
for kind in models losses metrics optimizers schedulers warmups datasets transforms processings postprocessing callbacks loggers; do
  "$SGTRAIN" list $kind -q >names
  [ -s names ] || fail "list $kind -q is empty"
  if grep -q ' ' names; then fail "list $kind -q: $(cat names)"; fi
done
"$SGTRAIN" list losses -q >names  # a pipe would end when grep has found its line
grep -qx KDLogitsLoss names || fail "no KDLogitsLoss"
