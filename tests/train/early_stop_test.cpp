// Number of epochs until EarlyStop ends a run, for given values (SuperGradients' rules).
#include <catch2/catch.hpp>

#include <limits>

#include "losses/loss.h"
#include "models/model.h"
#include "train/callback.h"

using namespace sgtrain;
using core::Tree;

namespace {

struct NoModel final : models::Model {
  models::Task task() const override { return models::Task::kClassification; }
  tensor::ModelOutput run(const at::Tensor&) override { return {}; }
  int num_classes() const override { return 1; }
  int input_channels() const override { return 1; }
  void replace_head(int) override {}
  void replace_input_channels(int) override {}
};

struct NoLoss final : losses::Loss {
  losses::LossResult operator()(const tensor::ModelOutput&, const tensor::Targets&) override {
    return {};
  }
  std::string name() const override { return "NoLoss"; }
};

struct Case {
  const char* mode;
  double min_delta;
  int patience;
  double threshold;  // NaN: none
  std::vector<double> values;
  int epochs;  // until it stops
};

int epochs_until_stop(const Case& c) {
  auto params = Tree::make_map();
  params->set("monitor", Tree::of("value"));
  params->set("mode", Tree::of(c.mode));
  params->set("min_delta", Tree::of(c.min_delta));
  params->set("patience", Tree::of(std::int64_t{c.patience}));
  if (c.threshold == c.threshold) params->set("threshold", Tree::of(c.threshold));
  auto problems = std::make_shared<core::Problems>();
  const auto maker = train::Callback::registry().parse(
      {.name = "EarlyStop", .params = core::Node(params, problems)});
  REQUIRE(problems->empty());
  const auto callback = maker();
  NoModel model;
  NoLoss loss;
  const train::TrainState state;
  for (std::size_t i = 0; i < c.values.size(); ++i) {
    const train::NamedValues metrics{{"value", c.values[i]}};
    train::PhaseContext context{.state = state, .model = model, .loss = loss, .metrics = metrics};
    if (callback->on_validation_loader_end(context).stop_training) return static_cast<int>(i) + 1;
  }
  return -1;
}

}  // namespace

TEST_CASE("EarlyStop ends after patience, threshold or a value that is not finite", "[train]") {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Case> cases{
      {"min", 0.0, 3, kNone, {1.0, 0.8, 0.81, 0.8, 0.9, 0.2, 0.1}, 5},
      {"max", 0.0, 3, kNone, {0.1, 0.5, 0.6, 0.6, 0.59, 0.5, 0.9}, 6},
      {"min", 0.0, 3, 0.1, {1.0, 0.8, 0.4, 0.2, 0.09, 0.05}, 5},
      {"max", 0.0, 3, 0.94, {0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95}, 7},
      {"max", 0.0, 3, kNone, {0.1, kNone, 0.3}, 2},
      {"max", 0.0, 3, kNone, {0.1, 0.2, inf}, 3},
      {"max", 0.1, 2, kNone, {0.1, 0.25, 0.4, 0.45, 0.49, 0.9}, 5},
      {"min", 0.0, 3, kNone, {1.0, 0.9, 0.8, 0.7}, -1},
  };
  for (const Case& c : cases) {
    INFO(c.mode << " delta " << c.min_delta << " patience " << c.patience);
    CHECK(epochs_until_stop(c) == c.epochs);
  }
}
