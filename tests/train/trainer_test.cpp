// The real Trainer on tiny runs: order of events, accumulation, selection, averages, skipped steps.
#include "train/trainer.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <csignal>
#include <limits>

#include "core/error.h"
#include "core/signals.h"
#include "tensor/checkpoint.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using train::Callback;
using train::PhaseContext;
using train::Requests;
using train::testing::TinyRun;

namespace {

std::vector<std::string>& events() {
  static std::vector<std::string> list;
  return list;
}

/// Writes down every moment; NAME(epoch,batch).
class RecordingCallback final : public train::Callback {
 public:
  void before_forward(at::Tensor& images, tensor::Targets&, PhaseContext& c) override {
    CHECK(images.dim() == 4);
    note("pre_prediction", c);
  }
#define SGTRAIN_RECORD(moment)                     \
  Requests on_##moment(PhaseContext& c) override { \
    note(#moment, c);                              \
    return {};                                     \
  }
  SGTRAIN_RECORD(training_start)
  SGTRAIN_RECORD(train_loader_start)
  SGTRAIN_RECORD(train_batch_start)
  SGTRAIN_RECORD(train_batch_loss_end)
  SGTRAIN_RECORD(train_batch_backward_end)
  SGTRAIN_RECORD(train_batch_gradient_step_start)
  SGTRAIN_RECORD(train_batch_gradient_step_end)
  SGTRAIN_RECORD(train_batch_end)
  SGTRAIN_RECORD(train_loader_end)
  SGTRAIN_RECORD(validation_loader_start)
  SGTRAIN_RECORD(validation_batch_start)
  SGTRAIN_RECORD(validation_batch_end)
  SGTRAIN_RECORD(validation_loader_end)
  SGTRAIN_RECORD(test_loader_start)
  SGTRAIN_RECORD(test_batch_start)
  SGTRAIN_RECORD(test_batch_end)
  SGTRAIN_RECORD(test_loader_end)
  SGTRAIN_RECORD(validation_end_best_epoch)
  SGTRAIN_RECORD(average_best_models_validation_start)
  SGTRAIN_RECORD(average_best_models_validation_end)
  SGTRAIN_RECORD(training_end)
#undef SGTRAIN_RECORD

 private:
  static void note(const std::string& moment, const PhaseContext& c) {
    REQUIRE(c.run != nullptr);
    events().push_back(moment + "(" + std::to_string(c.state.epoch) + "," +
                       std::to_string(c.batch_index) + ")");
    const bool after = moment.ends_with("batch_end") || moment.ends_with("loss_end");
    CHECK((c.output != nullptr) == (after || moment.ends_with("backward_end")));
    if (after) {
      CHECK(c.targets->labels.size(0) == c.batch->size());
      CHECK(c.losses->size() == c.loss.component_names().size());
    }
    CHECK((c.test_set != nullptr) == moment.starts_with("test"));
  }
};
SGTRAIN_REGISTER(Callback, RecordingCallback, "RecordingCallback");

/// Makes the gradient of one parameter infinite in batch 1 of epoch 0.
class SpoilingCallback final : public train::Callback {
 public:
  Requests on_train_batch_backward_end(PhaseContext& c) override {
    if (c.state.epoch == 0 && c.batch_index == 1) {
      auto parameters = c.model.parameters();
      parameters.front().mutable_grad()[0].fill_(std::numeric_limits<float>::infinity());
      before_ = parameters.front().clone();
    }
    return {};
  }
  Requests on_train_batch_end(PhaseContext& c) override {
    if (c.state.epoch == 0 && c.batch_index == 1) {
      CHECK(at::equal(before_, c.model.parameters().front()));
      CHECK(c.state.non_finite_in_a_row == 1);
      ++seen;
    }
    return {};
  }
  static inline int seen = 0;

 private:
  at::Tensor before_;
};
SGTRAIN_REGISTER(Callback, SpoilingCallback, "SpoilingCallback");

/// Asks for the end like a signal, in batch 2 of epoch 1.
class SignallingCallback final : public train::Callback {
 public:
  struct Params {
    int batch = 2;
    static Params from(core::Node& n) { return {.batch = n.get_or("batch", 2)}; }
  };
  explicit SignallingCallback(const Params& params) : p_(params) {}
  Requests on_train_batch_end(PhaseContext& c) override {
    if (c.state.epoch == 1 && c.batch_index == p_.batch) core::signals::request_stop(SIGTERM);
    return {};
  }

 private:
  Params p_;
};
SGTRAIN_REGISTER(Callback, SignallingCallback, "SignallingCallback");

/// Gives 0.1, NaN, 0.3, 0.2 in the epochs of a run.
class ScriptedMetric final : public metrics::Metric {
 public:
  void reset() override {}
  void update(const metrics::MetricInput&) override {}
  std::vector<metrics::MetricValue> describe() const override { return {{"Scripted", 0.0, true}}; }
  std::vector<metrics::MetricValue> compute() override {
    constexpr double kValues[] = {0.1, std::numeric_limits<double>::quiet_NaN(), 0.3, 0.2};
    return {{"Scripted", kValues[calls++ % 4], true}};
  }
  std::vector<at::Tensor> state() const override { return {}; }
  void merge(const std::vector<at::Tensor>&) override {}
  static inline int calls = 0;
};
using metrics::Metric;
SGTRAIN_REGISTER(Metric, ScriptedMetric, "ScriptedMetric");

double largest_difference(const tensor::StateDict& a, const tensor::StateDict& b) {
  double most = 0.0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].second.is_floating_point())
      most = std::max(most, (a[i].second - b[i].second).abs().max().item<double>());
  }
  return most;
}

tensor::StateDict weights(train::Run& run) {
  tensor::StateDict out;
  for (const auto& [name, value] : run.model->state_dict()) out.emplace_back(name, value.clone());
  return out;
}

}  // namespace

TEST_CASE("callbacks are told of every moment in the reference's order", "[train]") {
  const TinyRun tiny(
      "  max_epochs: 2\n  initial_lr: 0.01\n  batch_accumulate: 2\n  max_train_batches: 3\n"
      "  metric_to_watch: CrossEntropyLoss\n  greater_metric_to_watch_is_better: False\n"
      "  run_validation_freq: 2\n  run_test_freq: 2\n"
      "  phase_callbacks: [RecordingCallback]\n",
      4, /*test_set=*/true);
  const auto run = tiny.run(/*saves=*/true);
  events().clear();
  train::Trainer(*run).fit();

  std::vector<std::string> expected{"training_start(0,0)"};
  const auto add = [&](int epoch, int batch, std::initializer_list<const char*> moments) {
    for (const char* moment : moments)
      expected.push_back(std::string(moment) + "(" + std::to_string(epoch) + "," +
                         std::to_string(batch) + ")");
  };
  const auto train_batch = [&](int epoch, int batch, bool steps) {
    add(epoch, batch,
        {"pre_prediction", "train_batch_start", "train_batch_loss_end",
         "train_batch_backward_end"});
    if (steps)
      add(epoch, batch, {"train_batch_gradient_step_start", "train_batch_gradient_step_end"});
    add(epoch, batch, {"train_batch_end"});
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    add(epoch, 0, {"train_loader_start"});
    for (int batch = 0; batch < 3; ++batch)  // left-over micro-batches go to the next epoch
      train_batch(epoch, batch, (epoch * 3 + batch) % 2 == 1);
    add(epoch, 0, {"train_loader_end"});
  }
  add(1, 0, {"validation_loader_start"});
  for (int batch = 0; batch < 2; ++batch)
    add(1, batch, {"validation_batch_start", "validation_batch_end"});
  add(1, 0,
      {"validation_loader_end", "test_loader_start", "test_batch_start", "test_batch_end",
       "test_loader_end", "validation_end_best_epoch"});
  add(2, 0,
      {"average_best_models_validation_start", "average_best_models_validation_end",
       "training_end"});
  CHECK(events() == expected);
}

TEST_CASE("accumulate: mean equals one big batch, left-over micro-batches included", "[train]") {
  // 20 pictures: 5 micro-batches of 4, or batches of 16 and 4. Without batch statistics.
  const auto train_with = [](int batch_size, const std::string& how) {
    const TinyRun tiny("  max_epochs: 3\n  initial_lr: 0.05\n" + how, batch_size, false, false);
    const auto run = tiny.run();
    // Batch statistics would differ: the layers keep their running ones.
    struct Frozen final : train::Callback {
      Requests on_train_batch_start(PhaseContext& c) override {
        c.model.eval();
        return {};
      }
    };
    run->callbacks.push_back({"frozen", std::make_unique<Frozen>()});
    train::Trainer trainer(*run);
    trainer.fit();
    return std::pair(weights(*run), trainer.state().optimizer_steps);
  };
  const auto [big, big_steps] = train_with(16, "");
  const auto [mean, mean_steps] = train_with(4, "  batch_accumulate: 4\n  accumulate: mean\n");
  const auto [sum, sum_steps] = train_with(4, "  batch_accumulate: 4\n");
  CHECK(big_steps == 6);
  CHECK(mean_steps == 6);
  CHECK(sum_steps == 3);  // 15 micro-batches, as the reference counts
  CHECK(largest_difference(big, mean) < 1e-6);
  CHECK(largest_difference(big, sum) > 1e-3);
}

TEST_CASE("a gradient that is not finite skips the step and is told of", "[train]") {
  const TinyRun tiny(
      "  max_epochs: 1\n  initial_lr: 0.01\n  phase_callbacks: [SpoilingCallback]\n");
  const auto run = tiny.run();
  SpoilingCallback::seen = 0;
  train::Trainer trainer(*run);
  trainer.fit();
  CHECK(SpoilingCallback::seen == 1);
  CHECK(trainer.state().optimizer_steps == 4);
  CHECK(trainer.state().non_finite_in_a_row == 0);
  for (const auto& [name, value] : weights(*run)) {
    INFO(name);
    CHECK(at::isfinite(value.to(at::kDouble)).all().item<bool>());
  }
}

TEST_CASE("a value that is no number is never the best and never averaged", "[train]") {
  const TinyRun tiny("  max_epochs: 4\n  initial_lr: 0.01\n  metric_to_watch: Scripted\n");
  const auto run = tiny.run(
      /*saves=*/true, {"training_hyperparams.valid_metrics_list=[ScriptedMetric]"});
  ScriptedMetric::calls = 0;
  train::Trainer trainer(*run);
  const auto result = trainer.fit();
  CHECK(result.best_metric == 0.3);
  CHECK(result.best_epoch == 2);
  CHECK(tensor::Checkpoint::read(result.best_checkpoint).epoch == 3);
  std::vector<int> averaged;
  for (const auto& slot : trainer.state().averaged) averaged.push_back(slot.epoch);
  CHECK(averaged == std::vector<int>{0, 2, 3});
}

TEST_CASE("save_model off: no file at all", "[train]") {
  const TinyRun tiny("  max_epochs: 2\n  initial_lr: 0.01\n  save_model: False\n");
  const auto run = tiny.run(/*saves=*/true);
  train::Trainer(*run).fit();
  for (const auto& entry : std::filesystem::directory_iterator(tiny.run_dir())) {
    INFO(entry.path().string());
    CHECK(entry.path().extension() != ".pth");
    CHECK(entry.path().filename() != train::kSnapshots);
  }
}

TEST_CASE("too many skipped steps in a row end the run", "[train]") {
  const TinyRun tiny("  max_epochs: 2\n  initial_lr: 1.0e+30\n  max_non_finite_steps: 3\n");
  const auto run = tiny.run();
  train::Trainer trainer(*run);
  CHECK_THROWS_WITH(trainer.fit(), Catch::Contains("3 steps in a row were skipped"));
}

TEST_CASE("ReduceLROnPlateau lowers the rate in a run and survives a resume", "[train]") {
  const std::string lines =
      "  initial_lr: 0.1\n"
      "  lr_mode: {ReduceLROnPlateau: {mode: max, patience: 0, factor: 0.5, threshold: 10.0, "
      "threshold_mode: abs, metric_name: Accuracy}}\n";
  // Never better by 10, so every look but the first lowers it.
  const TinyRun tiny("  max_epochs: 4\n" + lines);
  const auto whole = tiny.run(/*saves=*/true);
  train::Trainer(*whole).fit();
  CHECK(whole->optimizer->groups().front().lr == Approx(0.1 / 8));

  const auto checkpoint = tensor::Checkpoint::read(tiny.run_dir() / "ckpt_latest.pth");
  CHECK(checkpoint.torch_scheduler_state_dict["last_epoch"].as_int() == 4);
  const auto more = tiny.run(/*saves=*/true, {"training_hyperparams.max_epochs=6"});
  train::Trainer trainer(*more);
  trainer.resume(tiny.run_dir() / "ckpt_latest.pth");
  trainer.fit();
  CHECK(more->optimizer->groups().front().lr == Approx(0.1 / 32));
}

TEST_CASE("CyclicLR cycles the momentum against the rate, across a resume too", "[train]") {
  const std::string mode =
      "  initial_lr: 0.05\n  lr_mode: {CyclicLR: {base_lr: 0.01, max_lr: 0.05, step_size_up: 4, "
      "phase: TRAIN_BATCH_STEP}}\n";
  const auto momentum = [](const train::Run& run) {
    const auto state = run.optimizer->state_dict();
    for (const auto& [key, value] : state.groups.front().options) {
      if (key == "momentum") return value.as_double();
      if (key == "betas") return value.items().at(0).as_double();
    }
    return -1.0;
  };
  for (const char* optimizer : {"SGD", "AdamW"}) {
    INFO(optimizer);
    const TinyRun tiny("  max_epochs: 1\n  optimizer: " + std::string(optimizer) + "\n" + mode);
    const auto run = tiny.run(/*saves=*/true);
    CHECK(momentum(*run) == Approx(0.9));  // max_momentum
    train::Trainer(*run).fit();
    CHECK(run->optimizer->groups().front().lr == Approx(0.04));  // 5 of 4 + 4 steps
    CHECK(momentum(*run) == Approx(0.9 - 0.1 * 0.75));
    const auto more = tiny.run(/*saves=*/true, {"training_hyperparams.max_epochs=2"});
    train::Trainer trainer(*more);
    trainer.resume(tiny.run_dir() / "ckpt_latest.pth");
    CHECK(momentum(*more) == Approx(0.9 - 0.1 * 0.75));
    trainer.fit();
    CHECK(momentum(*more) == Approx(0.9 - 0.1 * 0.5));  // 10 steps
  }
  const TinyRun without("  max_epochs: 1\n  optimizer_params: {momentum: 0.0}\n" + mode);
  CHECK_THROWS_WITH(without.run(), Catch::Contains("cycle_momentum: False"));
}

TEST_CASE("an unknown value for ReduceLROnPlateau is an error before data is read", "[train]") {
  const TinyRun tiny(
      "  max_epochs: 1\n  initial_lr: 0.1\n  lr_mode: {ReduceLROnPlateau: {metric_name: "
      "Acuracy}}\n");
  CHECK_THROWS_WITH(tiny.run(), Catch::Contains("Accuracy"));
}

TEST_CASE("deterministic runs are equal bit for bit", "[train]") {
  const TinyRun tiny("  max_epochs: 2\n  initial_lr: 0.05\n  deterministic: True\n  ema: True\n");
  const auto first = tiny.run(), second = tiny.run();
  train::Trainer(*first).fit();
  train::Trainer(*second).fit();
  CHECK(largest_difference(weights(*first), weights(*second)) == 0.0);
  CHECK(largest_difference(first->ema->state_dict(), second->ema->state_dict()) == 0.0);
}

TEST_CASE("the averaged model is scored, written and forgotten; precise_bn is exact", "[train]") {
  const TinyRun tiny(
      "  max_epochs: 3\n  initial_lr: 0.05\n  precise_bn: True\n"
      "  precise_bn_batch_size: 20\n");
  const auto run = tiny.run(/*saves=*/true);
  train::Trainer trainer(*run);
  const auto result = trainer.fit();
  REQUIRE(result.average_values.size() == 2);
  const auto average = tensor::read_weights(tiny.run_dir() / "average_model.pth");
  CHECK(average.tensors.size() == run->model->state_dict().size());
  CHECK_FALSE(std::filesystem::exists(tiny.run_dir() / train::kSnapshots));
  // The first layer's running mean is the mean over the five batches of the training set.
  const auto state = run->model->state_dict();
  const auto find = [&](const std::string& name) {
    for (const auto& [own, value] : state) {
      if (own == name) return value;
    }
    FAIL("no " << name);
    return at::Tensor();
  };
  const at::NoGradGuard no_grad;
  run->train_loader->begin(0);
  at::Tensor mean = at::zeros_like(find("bn1.running_mean"));
  while (const auto batch = run->train_loader->next()) {
    const at::Tensor x = at::conv2d(train::to_network_input(batch->images, run->input),
                                    find("conv1.weight"), {}, 1, 1);
    mean += x.mean({0, 2, 3}) / 5.0;
  }
  CHECK(at::allclose(find("bn1.running_mean"), mean, 1e-4, 1e-6));
}

TEST_CASE("a signal within an epoch saves, and the resumed run ends the same", "[train]") {
  const std::string lines =
      "  max_epochs: 3\n  initial_lr: 0.05\n  batch_accumulate: 2\n  ema: True\n";
  const TinyRun whole_recipe(lines);
  const auto whole = whole_recipe.run(/*saves=*/true);
  train::Trainer(*whole).fit();

  for (const int batch : {0, 2, 4}) {
    INFO("batch " << batch);
    const TinyRun tiny(lines + "  phase_callbacks: [SignallingCallback: {batch: " +
                       std::to_string(batch) + "}]\n");
    {
      const auto run = tiny.run(/*saves=*/true);
      train::Trainer trainer(*run);
      CHECK_THROWS_AS(trainer.fit(), core::Interrupted);
    }
    core::signals::reset();
    const auto run = tiny.run(/*saves=*/true, {"training_hyperparams.phase_callbacks=[]"});
    train::Trainer trainer(*run);
    trainer.resume(tiny.run_dir() / "ckpt_latest.pth");
    trainer.fit();
    CHECK(largest_difference(weights(*whole), weights(*run)) == 0.0);
    CHECK(largest_difference(whole->ema->state_dict(), run->ema->state_dict()) == 0.0);
  }
}
