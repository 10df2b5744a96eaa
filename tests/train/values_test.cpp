// Values that a run reports: names, validation in reduced precision, moving averages of short runs.
#include <catch2/catch.hpp>

#include <cmath>

#include "core/log.h"
#include "train/metric_name.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using train::testing::TinyRun;

namespace {

double distance(const tensor::StateDict& a, const tensor::StateDict& b) {
  double sum = 0.0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first.ends_with(".weight"))
      sum += (a[i].second - b[i].second).to(at::kDouble).pow(2).sum().item<double>();
  }
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("every value of a run can be watched", "[train]") {
  for (const char* watched : {"Accuracy", "Top5", "CrossEntropyLoss", "top5", "accuracy"}) {
    INFO(watched);
    const TinyRun tiny(std::string("  max_epochs: 1\n  initial_lr: 0.01\n  metric_to_watch: ") +
                       watched + "\n");
    const auto run = tiny.run(false, {"training_hyperparams.valid_metrics_list=[Accuracy,Top5]"});
    train::Trainer trainer(*run);
    const auto result = trainer.fit();
    CHECK(result.best_epoch == 0);
    CHECK(train::value_of(result.valid_values, result.watched) == result.best_metric);
    const auto names = train::logged_names(*run);
    REQUIRE(result.valid_values.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i) CHECK(result.valid_values[i].first == names[i]);
  }
}

TEST_CASE("huge outputs in bf16 give a finite validation loss", "[train]") {
  const TinyRun tiny("  max_epochs: 1\n  initial_lr: 0.01\n  precision: bf16\n");
  const auto run = tiny.run();
  {
    const at::NoGradGuard no_grad;
    for (const auto& ref : run->model->named_parameters()) {
      if (ref.name.starts_with("linear.")) ref.tensor->mul_(1e6);
    }
  }
  train::Evaluator evaluator(
      run->valid_metrics, run->loss.get(), *run->comm,
      {.input = run->input, .precision = run->precision, .max_batches = {}, .title = "Validating"});
  const auto values = evaluator.run(*run->model, *run->valid_loader);
  CHECK(train::value_of(values, "CrossEntropyLoss").value() > 1e3);
  for (const auto& [name, value] : values) {
    INFO(name);
    CHECK(std::isfinite(value));
  }
}

TEST_CASE("the moving average follows the weights of a short run, or a warning says why not",
          "[train]") {
  const auto run_with = [](const std::string& ema_params) {
    const TinyRun tiny("  max_epochs: 4\n  initial_lr: 0.05\n  ema: True\n  ema_params: {" +
                       ema_params + "}\n");
    const auto warnings = core::log::count(core::log::Level::kWarning);
    const auto run = tiny.run();
    const bool warned = core::log::count(core::log::Level::kWarning) > warnings;
    tensor::StateDict first;
    for (const auto& [name, value] : run->model->state_dict())
      first.emplace_back(name, value.clone());
    train::Trainer trainer(*run);
    trainer.fit();
    CHECK(trainer.state().optimizer_steps == 20);
    const auto last = run->model->state_dict();
    return std::pair(distance(run->ema->state_dict(), last) / distance(first, last), warned);
  };
  const auto [threshold, threshold_warned] = run_with("decay: 0.9999, decay_type: threshold");
  CHECK(threshold < 0.5);
  CHECK_FALSE(threshold_warned);
  const auto [small, small_warned] = run_with("decay: 0.5, decay_type: exp");
  CHECK(small < 0.5);
  CHECK_FALSE(small_warned);
  const auto [slow, slow_warned] = run_with("decay: 0.9999, decay_type: exp");
  CHECK(slow > 0.5);
  CHECK(slow_warned);
}
