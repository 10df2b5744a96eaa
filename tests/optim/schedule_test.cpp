// Learning rates of all goldens/schedules, step by step, to 1e-9.
#include "optim/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "core/error.h"
#include "optim/support.h"
#include "support/golden.h"

namespace sgtrain::optim {
namespace {

using testing::Json;
using testing::Schedules;

constexpr int kEpochs = 5, kBatches = 7;
constexpr double kInitialLr = 0.1;

struct Row {
  bool stepped;
  double used, after;
};

std::vector<Row> simulate(const Json& config, int epochs, int batches, double initial_lr) {
  const RunLength length = Schedules::length_of(config, epochs, batches);
  const Schedules schedules(config, length);
  std::vector<ParamGroup> groups(1);
  groups[0].lr = groups[0].initial_lr = initial_lr;
  std::vector<Row> rows;
  for (int e = 0; e < epochs; ++e) {
    schedules.apply({.epoch = e, .epoch_start = true}, groups);
    for (int i = 0; i < batches; ++i) {
      schedules.apply({.epoch = e, .batch = i}, groups);
      schedules.apply({.epoch = e, .batch = i, .loss_end = true}, groups);
      const double used = groups[0].lr;
      const bool steps = (e * batches + i + 1) % length.batch_accumulate == 0;
      if (steps) schedules.apply({.epoch = e, .batch = i, .stepped = true}, groups);
      rows.push_back({steps, used, groups[0].lr});
    }
    schedules.apply({.epoch = e, .batch = batches - 1, .epoch_end = true}, groups);
  }
  return rows;
}

TEST_CASE("learning rates equal the reference trainer's") {
  const Json configs = Json::parse(std::ifstream(support::golden("schedules/configs.json")));
  int compared = 0;
  for (const auto& [name, config] : configs.items()) {
    if (name == "function") continue;  // a Python function
    INFO(name);
    const auto golden = support::read_rows(support::golden("schedules/lr_" + name + ".csv"), ',');
    const std::vector<Row> rows = simulate(config, kEpochs, kBatches, kInitialLr);
    REQUIRE(golden.size() == rows.size() + 1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO("step " << i);
      const auto& expected = golden[i + 1];
      CHECK(rows[i].stepped == (expected[3] == "1"));
      CHECK(rows[i].used == Approx(std::stod(expected[4])).epsilon(1e-9).margin(0.0));
      CHECK(rows[i].after == Approx(std::stod(expected[5])).epsilon(1e-9).margin(0.0));
      ++compared;
    }
  }
  CHECK(compared == 18 * kEpochs * kBatches);
}

TEST_CASE("a hundred batches of warm-up, then cosine, as in the reference's own test") {
  constexpr int kEpochsThere = 5, kBatchesThere = 256, kSteps = 100;
  constexpr double kStart = 0.05, kRatio = 0.2;
  const auto rows = simulate({{"lr_mode", "CosineLRScheduler"},
                              {"cosine_final_lr_ratio", kRatio},
                              {"warmup_initial_lr", kStart},
                              {"warmup_mode", "LinearBatchLRWarmup"},
                              {"lr_warmup_steps", kSteps}},
                             kEpochsThere, kBatchesThere, 1.0);
  const double total = kEpochsThere * kBatchesThere - kSteps;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    INFO("step " << i);
    const double cosine = 0.5 * (1.0 + std::cos(M_PI * (i - kSteps) / (total + 1.0)));
    const double expected =
        i < kSteps ? kStart + i * (1.0 - kStart) / (kSteps - 1) : cosine * (1.0 - kRatio) + kRatio;
    CHECK(rows[static_cast<std::size_t>(i)].after == Approx(expected).epsilon(1e-4));
  }
}

TEST_CASE("warm-ups start each group at its own rate") {
  const Json config = {{"lr_warmup_epochs", 2},
                       {"warmup_mode", "LinearEpochLRWarmup"},
                       {"warmup_initial_lr", {{"head", 0.5}, {"default", 0.1}}}};
  const Schedules schedules(config, Schedules::length_of(config, 4, 2));
  std::vector<ParamGroup> groups(2);
  groups[0].name = "head";
  groups[0].initial_lr = groups[1].initial_lr = 1.0;
  schedules.apply({.epoch = 0, .epoch_start = true}, groups);
  CHECK(groups[0].lr == 0.5);
  CHECK(groups[1].lr == 0.1);
}

/// A scheduler of torch at a position of its phase, made from the golden's parameters.
struct TorchCase {
  std::unique_ptr<Schedules> schedules;
  std::vector<ParamGroup> groups{1};
  std::vector<std::pair<std::string, double>> values{{"value", 0.0}};

  explicit TorchCase(const Json& config, double lr) {
    schedules = std::make_unique<Schedules>(Json{{"lr_mode", config}}, RunLength{});
    groups[0].lr = groups[0].initial_lr = lr;
  }
  double start() {
    schedules->apply({.epoch = 0, .epoch_start = true}, groups);
    return groups[0].lr;
  }
  double step(double value) {
    values[0].second = value;
    schedules->apply({.epoch = 1, .validation_end = true, .values = &values}, groups);
    return groups[0].lr;
  }
};

TEST_CASE("the ten schedulers of torch give Python's numbers, also when saved and loaded") {
  const Json golden = Json::parse(std::ifstream(support::golden("schedules/torch.json")));
  const double lr = golden["lr"];
  CHECK(golden["cases"].size() >= 20);
  std::set<std::string> seen;
  for (const Json& entry : golden["cases"]) {
    Json params = entry["params"];
    INFO(entry["scheduler"] << " " << params.dump());
    seen.insert(entry["scheduler"]);
    params["phase"] = "VALIDATION_EPOCH_END";
    if (entry["scheduler"] == "ReduceLROnPlateau") params["metric_name"] = "value";
    const Json mode = {{entry["scheduler"], params}};
    TorchCase whole(mode, lr);
    const std::vector<double> rates = entry["rates"];
    const std::vector<double> values = entry["values"], momenta = entry["momenta"];
    constexpr double kOwnMomentum = 0.7;  // of the golden's optimizer
    const auto momentum = [&] {
      return whole.schedules->schedule().momentum().value_or(kOwnMomentum);
    };
    CHECK(momentum() == Approx(momenta[0]).epsilon(1e-9));
    CHECK(whole.start() == Approx(rates[0]).epsilon(1e-9).margin(1e-15));
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(whole.step(values[i]) == Approx(rates[i + 1]).epsilon(1e-9).margin(1e-15));
      CHECK(momentum() == Approx(momenta[i + 1]).epsilon(1e-9));
      TorchCase resumed(mode, lr);
      resumed.schedules->schedule().load(whole.schedules->schedule().save());
      resumed.groups = whole.groups;
      whole = std::move(resumed);
    }
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("schedulers of torch step at their phase only, once a warm-up is over") {
  const char* const phases[] = {
      "TRAIN_EPOCH_START",    "TRAIN_BATCH_END",           "TRAIN_BATCH_STEP", "TRAIN_EPOCH_END",
      "VALIDATION_EPOCH_END", "VALIDATION_END_BEST_EPOCH", "TEST_END"};
  for (int p = 0; p < 7; ++p) {
    INFO(phases[p]);
    const Schedules schedules(
        {{"lr_mode", {{"ExponentialLR", {{"gamma", 0.5}, {"phase", phases[p]}}}}}},
        RunLength{.warmup_epochs = 2});
    std::vector<ParamGroup> groups(1);
    groups[0].lr = groups[0].initial_lr = 1.0;
    for (int epoch = 0; epoch < 4; ++epoch) {
      const Position at[] = {
          {.epoch = epoch, .epoch_start = true},    {.epoch = epoch, .loss_end = true},
          {.epoch = epoch, .stepped = true},        {.epoch = epoch, .epoch_end = true},
          {.epoch = epoch, .validation_end = true}, {.epoch = epoch, .best_epoch = true},
          {.epoch = epoch, .test_end = true}};
      for (int i = 0; i < 7; ++i) {
        schedules.apply(at[i], groups);
        const int steps = std::max(0, epoch - 2 + (i >= p ? 1 : 0));
        CHECK(groups[0].lr == (epoch < 2 ? 1.0 : std::pow(0.5, steps)));
      }
    }
  }
}

TEST_CASE("accumulation: one scheduler step per optimizer step") {
  const Json steps = {
      {"batch_accumulate", 2},
      {"lr_mode", {{"ExponentialLR", {{"gamma", 0.5}, {"phase", "TRAIN_BATCH_STEP"}}}}}};
  const auto rows = simulate(steps, 1, 6, 1.0);
  CHECK(rows[1].used == 1.0);
  CHECK(rows[2].used == 0.5);
  CHECK(rows[5].used == 0.25);
}

TEST_CASE("wrong parameters of schedules are named") {
  const auto problems = [](const Json& config) {
    try {
      Schedules(config, {});
    } catch (const core::InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(problems({{"lr_mode", "StepLRScheduler"}, {"lr_decay_factor", 0.1}}),
             Catch::Contains("needs lr_updates"));
  CHECK_THAT(problems({{"lr_mode", "step"},
                       {"lr_updates", {1}},
                       {"step_lr_update_freq", 1.5},
                       {"lr_decay_factor", 0.1}}),
             Catch::Contains("not both"));
  CHECK_THAT(problems({{"lr_mode", "step"}, {"lr_updates", {1}}}),
             Catch::Contains("lr_decay_factor"));
}

}  // namespace
}  // namespace sgtrain::optim
