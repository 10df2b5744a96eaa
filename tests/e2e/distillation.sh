#!/usr/bin/env bash
# Knowledge distillation as a user of SuperGradients' kd recipes writes it: a teacher is trained, a
# student learns from it, the run is killed and goes on, and its checkpoints are a student's.
# timeout: 240
set -euo pipefail
. "$SGTRAIN_TEST_SUPPORT/tiny_run.sh"
tiny_set data
tiny_recipe teacher.yaml "$PWD/data" 3
"$SGTRAIN" teacher.yaml --run-dir teacher 2>log || { cat log; fail "the teacher's run"; }

tiny_recipe student.yaml "$PWD/data" 6
sed -i -e '/^architecture:/d' -e '/^arch_params:/d' -e 's/loss: CrossEntropyLoss/loss: KDLogitsLoss/' \
  -e 's/metric_to_watch: CrossEntropyLoss/metric_to_watch: KDLogitsLoss\/Loss/' \
  -e 's/monitor: CrossEntropyLoss/monitor: KDLogitsLoss\/Task Loss/' student.yaml
cat >>student.yaml <<'RECIPE'
architecture: kd_module
student_architecture: custom_resnet_cifar
teacher_architecture: custom_resnet_cifar
arch_params:
  teacher_input_adapter:
    _target_: super_gradients.training.utils.kd_trainer_utils.NormalizationAdapter
    mean_original: [0.0, 0.0, 0.0]
    std_original: [1.0, 1.0, 1.0]
    mean_required: [0.0, 0.0, 0.0]
    std_required: [1.0, 1.0, 1.0]
student_arch_params: {structure: [1, 1, 1, 1], width_mult: 0.03125, num_classes: 10, droppath_prob: 0.2}
teacher_arch_params: {structure: [1, 1, 1, 1], width_mult: 0.0625, num_classes: 10}
student_checkpoint_params:
  checkpoint_path:
  pretrained_weights:
  load_backbone: False
  strict_load: {_target_: super_gradients.training.sg_trainer.StrictLoad, value: True}
teacher_checkpoint_params:
  checkpoint_path: teacher/ckpt_best.pth
  strict_load: {_target_: super_gradients.training.sg_trainer.StrictLoad, value: True}
run_teacher_on_eval: True
RECIPE
sed -i 's/^training_hyperparams:/training_hyperparams:\n  criterion_params:\n    distillation_loss_coeff: 0.8\n    task_loss_fn: {_target_: super_gradients.training.losses.label_smoothing_cross_entropy_loss.CrossEntropyLoss}/' \
  student.yaml

"$SGTRAIN" student.yaml --run-dir whole 2>log || { cat log; fail "the student's run"; }
grep -q 'KDLogitsLoss/Distillation Loss' whole/results.csv || fail "columns: $(head -1 whole/results.csv)"

# Killed after two epochs, then the same end.
"$SGTRAIN" student.yaml --run-dir killed 2>log2 &
pid=$!
for ((i = 0; i < 600; ++i)); do
  [ "$(wc -l 2>/dev/null <killed/results.csv || echo 0)" -ge 3 ] && break
  sleep 0.1
done
kill -9 $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
"$SGTRAIN" resume killed 2>log || { cat log2 log; fail "the resumed run"; }
same_end whole killed

# Scored as in training; a student's checkpoint for every other command.
"$SGTRAIN" evaluate student.yaml --checkpoint whole/ckpt_latest.pth --output scores.json 2>log || { cat log; fail "evaluate"; }
last() { awk -F, -v want="$1" 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == want) c = i} END {print $c}' whole/results.csv; }
score() { sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p" scores.json; }
for pair in "Accuracy Valid_Accuracy" "KDLogitsLoss\/Loss Valid_KDLogitsLoss/Loss"; do
  set -- $pair
  awk -v a="$(score "$1")" -v b="$(last "$2")" 'BEGIN {exit !(a != "" && a - b < 1e-6 && b - a < 1e-6)}' ||
    fail "$1: $(cat scores.json) against $(cat whole/results.csv)"
done
"$SGTRAIN" predict --checkpoint whole data/t10k-images-idx3-ubyte --limit 4 --json out.json --output pictures 2>log ||
  { cat log; fail "predict"; }
[ "$(grep -o '"image"' out.json | wc -l)" -eq 4 ] || fail "predict: $(cat out.json)"

# Two processes in step.
"$SGTRAIN" student.yaml --run-dir ranks --device cpu --processes 2 training_hyperparams.max_epochs=1 2>log ||
  { cat log; fail "two processes"; }

# A teacher without weights teaches nothing.
code=0; "$SGTRAIN" student.yaml --run-dir refused teacher_checkpoint_params.checkpoint_path=null 2>log || code=$?
[ $code = 2 ] && grep -q 'the teacher knows nothing' log || { cat log; fail "no teacher: exit code $code"; }
