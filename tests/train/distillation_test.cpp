// Knowledge distillation through the real plan and Trainer: who learns, what checkpoints hold,
// exact resume, mistakes.
#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/signals.h"
#include "models/build.h"
#include "tensor/checkpoint.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using train::testing::TinyRun;

namespace {

using Overrides = std::vector<std::string>;

/// A teacher that was trained for an epoch, and a student half as wide.
class Pair {
 public:
  explicit Pair(const std::string& lines = "") : student_(hyper(lines)) {
    const auto run = teacher_.run(/*saves=*/true);
    train::Trainer(*run).fit();
  }

  Overrides overrides(const Overrides& more = {}) const {
    Overrides out{"architecture=kd_module",
                  "~arch_params.structure",
                  "~arch_params.width_mult",
                  "+student_architecture=custom_resnet_cifar",
                  "+student_arch_params={structure: [1, 1, 1, 1], width_mult: 0.03125}",
                  "+teacher_architecture=custom_resnet_cifar",
                  "+teacher_arch_params={structure: [1, 1, 1, 1], width_mult: 0.0625}",
                  "+student_checkpoint_params={}",
                  "+teacher_checkpoint_params={checkpoint_path: " + checkpoint().string() + "}",
                  "+run_teacher_on_eval=True",
                  "training_hyperparams.loss=KDLogitsLoss",
                  "+training_hyperparams.criterion_params={task_loss_fn: CrossEntropyLoss, "
                  "distillation_loss_coeff: 0.8}"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  std::filesystem::path checkpoint() const { return teacher_.run_dir() / "ckpt_best.pth"; }
  const TinyRun& student() const { return student_; }
  std::unique_ptr<train::Run> run(const Overrides& more = {}) const {
    return student_.run(/*saves=*/true, overrides(more));
  }

 private:
  static std::string hyper(const std::string& lines) {
    return "  max_epochs: 2\n  initial_lr: 0.05\n" + lines;
  }
  TinyRun teacher_{"  max_epochs: 1\n  initial_lr: 0.05\n"}, student_;
};

/// Entries below a prefix, without it; copies.
tensor::StateDict below(const tensor::StateDict& state, const std::string& prefix) {
  tensor::StateDict out;
  for (const auto& [name, value] : state) {
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), value.clone());
  }
  return out;
}

bool equal(const tensor::StateDict& a, const tensor::StateDict& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !at::equal(a[i].second, b[i].second)) return false;
  }
  return true;
}

double value(const train::NamedValues& values, const std::string& name) {
  const auto found = train::value_of(values, name);
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("the student learns and is averaged, the teacher stays", "[train][kd]") {
  const Pair pair(
      "  ema: True\n  ema_params: {decay: 0.9, decay_type: constant}\n"
      "  precise_bn: True\n  precise_bn_batch_size: 20\n");
  const auto teacher = tensor::read_weights(pair.checkpoint()).tensors;
  const auto run = pair.run();
  const auto first = below(run->model->state_dict(), "student.");
  train::Trainer trainer(*run);
  const auto result = trainer.fit();

  const auto state = run->model->state_dict();
  CHECK(state.size() == first.size() + teacher.size());
  CHECK(equal(below(state, "teacher."), teacher));
  CHECK_FALSE(equal(below(state, "student."), first));
  for (const auto& group : run->optimizer->groups()) {
    for (const std::string& name : group.param_names)
      CHECK_FALSE((name.starts_with("teacher") || name.starts_with("student")));
  }
  const auto& values = result.valid_values;
  CHECK(value(values, "KDLogitsLoss/Loss") ==
        Approx(0.2 * value(values, "KDLogitsLoss/Task Loss") +
               0.8 * value(values, "KDLogitsLoss/Distillation Loss")));
  CHECK(value(values, "KDLogitsLoss/Distillation Loss") > 0.0);

  // Checkpoints hold the pair, raw and averaged; the average's teacher is the same one.
  const auto file = pair.student().run_dir() / "ckpt_latest.pth";
  const auto checkpoint = tensor::Checkpoint::read(file);
  CHECK(equal(checkpoint.net, state));
  REQUIRE(checkpoint.ema_net);
  CHECK(equal(below(*checkpoint.ema_net, "teacher."), teacher));
  CHECK_FALSE(equal(below(*checkpoint.ema_net, "student."), below(state, "student.")));

  // The student alone is loaded from it, and is what the metric scored.
  CHECK(checkpoint.sgtrain["architecture"].as_string() == "custom_resnet_cifar");
  const TinyRun& tiny = pair.student();
  const auto alone = tiny.run(false, {"arch_params.width_mult=0.03125",
                                      "+checkpoint_params.checkpoint_path=" + file.string()});
  CHECK(equal(alone->model->state_dict(), below(*checkpoint.ema_net, "student.")));
  train::Evaluator evaluator(alone->valid_metrics, alone->loss.get(), *alone->comm,
                             {.input = alone->input, .max_batches = {}});
  const auto scored = evaluator.run(*alone->model, *alone->valid_loader);
  CHECK(value(scored, "Accuracy") == value(values, "Accuracy"));
  CHECK(value(scored, "CrossEntropyLoss") ==
        Approx(value(values, "KDLogitsLoss/Task Loss")).epsilon(1e-6));
}

TEST_CASE("an interrupted distillation ends the same", "[train][kd]") {
  const std::string lines = "  ema: True\n  batch_accumulate: 2\n";
  const Pair pair(lines);
  const auto whole = pair.run();
  train::Trainer(*whole).fit();
  {
    const auto run =
        pair.run({"++training_hyperparams.phase_callbacks=[{SignallingCallback: {batch: 1}}]"});
    train::Trainer trainer(*run);
    CHECK_THROWS_AS(trainer.fit(), core::Interrupted);
  }
  core::signals::reset();
  const auto run = pair.run();
  train::Trainer trainer(*run);
  trainer.resume(pair.student().run_dir() / "ckpt_latest.pth");
  CHECK(trainer.state().epoch == 1);
  trainer.fit();
  CHECK(equal(run->model->state_dict(), whole->model->state_dict()));
  CHECK(equal(run->ema->state_dict(), whole->ema->state_dict()));
}

TEST_CASE("run_teacher_on_eval and input adapters do what the reference's do", "[train][kd]") {
  const Pair pair;
  const auto teacher = tensor::read_weights(pair.checkpoint()).tensors;
  const at::Tensor images = at::rand({4, 3, 8, 8});
  const auto taught = [&](const Overrides& more) {
    const auto run = pair.run(more);
    run->model->train(true);
    const at::Tensor logits = run->model->run(images)["teacher.logits"];
    CHECK_FALSE(logits.requires_grad());
    return std::pair(logits, below(run->model->state_dict(), "teacher."));
  };
  const auto [steady, same] = taught({});
  CHECK(equal(same, teacher));
  const auto [following, moved] = taught({"run_teacher_on_eval=False"});
  CHECK_FALSE(at::allclose(following, steady, 1e-3, 1e-3));  // statistics of the batch
  CHECK_FALSE(equal(moved, teacher));

  // x in (x - 0.5) / 0.25 becomes (x - 0.1) / 0.5.
  const std::string adapter =
      "{NormalizationAdapter: {mean_original: [0.5], std_original: [0.25], mean_required: [0.1], "
      "std_required: [0.5]}}";
  const auto run = pair.run({"+arch_params.teacher_input_adapter=" + adapter,
                             "+arch_params.student_input_adapter=" + adapter});
  run->model->eval();
  const auto plain = pair.run();
  plain->model->eval();
  const at::Tensor adapted = (images * 0.25 + 0.5 - 0.1) / 0.5;
  for (const char* name : {"logits", "teacher.logits"}) {
    INFO(name);
    CHECK(
        at::allclose(run->model->run(images)[name], plain->model->run(adapted)[name], 1e-4, 1e-5));
  }
  const auto names = run->model->state_dict();
  CHECK(names[names.size() - 4].first == "teacher_input_adapter.additive");
}

TEST_CASE("mistakes in a distillation are named before any work", "[train][kd]") {
  const Pair pair;
  const auto plan = [&](const Overrides& more) { pair.student().plan(pair.overrides(more)); };
  CHECK_THROWS_WITH(plan({"teacher_checkpoint_params.checkpoint_path=null"}),
                    Catch::Contains("knows nothing"));
  CHECK_THROWS_WITH(plan({"student_architecture=null"}), Catch::Contains("student_architecture"));
  CHECK_THROWS_WITH(plan({"teacher_architecture=custom_resnet_cifr"}),
                    Catch::Contains("did you mean 'custom_resnet_cifar'"));
  CHECK_THROWS_WITH(plan({"+checkpoint_params.checkpoint_path=a.pth"}),
                    Catch::Contains("student_checkpoint_params"));
  CHECK_THROWS_WITH(pair.run({"+teacher_arch_params.num_classes=7"}),
                    Catch::Contains("7") && Catch::Contains("class by class"));
  CHECK_THROWS_WITH(
      pair.student().run(false, {"training_hyperparams.loss={KDLogitsLoss: {task_loss_fn: "
                                 "CrossEntropyLoss}}"}),
      Catch::Contains("kd_module"));
}
