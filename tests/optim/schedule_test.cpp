// Learning rates of all goldens/schedules, step by step, to 1e-9.
#include "optim/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

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

TEST_CASE("numbers of the reference's own tests") {
  // Rate used in each epoch, one batch per epoch.
  const auto used = [](const Json& config, int epochs, double lr) {
    std::vector<double> out;
    for (const Row& row : simulate(config, epochs, 1, lr)) out.push_back(row.used);
    return out;
  };
  const Json warm = {{"lr_warmup_epochs", 3}, {"warmup_mode", "linear_epoch_step"}};
  CHECK(used(warm, 5, 1.0) == std::vector<double>{0.25, 0.5, 0.75, 1.0, 1.0});
  const Json down = {
      {"lr_warmup_epochs", 3}, {"warmup_mode", "LinearEpochLRWarmup"}, {"warmup_initial_lr", 4.0}};
  CHECK(used(down, 5, 1.0) == std::vector<double>{4.0, 3.0, 2.0, 1.0, 1.0});
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

TEST_CASE("schedules of torch give Python's numbers") {
  // Computed with torch 2.11 from a rate of 0.1: value after k scheduler steps.
  struct Case {
    Json mode;
    std::vector<double> rates;  // of epochs 0, 1, 2 …
  };
  const double third = 0.1 / 3.0;
  const std::vector<Case> cases = {
      {{{"MultiStepLR", {{"milestones", {1, 3}}, {"gamma", 0.5}}}},
       {0.1, 0.05, 0.05, 0.025, 0.025}},
      {{{"ConstantLR", {{"total_iters", 2}}}}, {third, third, 0.1, 0.1, 0.1}},
      {{{"LinearLR", {{"start_factor", 0.5}, {"total_iters", 4}}}},
       {0.05, 0.0625, 0.075, 0.0875, 0.1}},
      {{{"ExponentialLR", {{"gamma", 0.5}}}}, {0.1, 0.05, 0.025, 0.0125, 0.00625}},
      {{{"CosineAnnealingLR", {{"T_max", 4}, {"eta_min", 0.02}}}},
       {0.1, 0.06 + 0.04 * std::sqrt(0.5), 0.06, 0.06 - 0.04 * std::sqrt(0.5), 0.02}},
      {{{"CosineAnnealingWarmRestarts", {{"T_0", 1}, {"T_mult", 2}}}},
       {0.1, 0.1, 0.05, 0.1, 0.05 + 0.05 * std::sqrt(0.5)}},
      {{{"CyclicLR",
         {{"base_lr", 0.1}, {"max_lr", 0.5}, {"step_size_up", 2}, {"cycle_momentum", false}}}},
       {0.1, 0.3, 0.5, 0.3, 0.1}},
  };
  for (const Case& c : cases) {
    INFO(c.mode.dump());
    const auto rows = simulate({{"lr_mode", c.mode}}, 5, 1, 0.1);
    for (std::size_t e = 0; e < rows.size(); ++e) {
      INFO("epoch " << e);
      CHECK(rows[e].used == Approx(c.rates[e]).epsilon(1e-12).margin(1e-15));
    }
  }
  // By optimizer steps, with accumulation.
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
