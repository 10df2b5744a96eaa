// Numbers of the reference's own unit tests (golden/train/reference_cases.json) through whole runs:
// warm-up, cool-down, rates by prefix, groups without weight decay, early stop.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/golden.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using Json = nlohmann::ordered_json;
using train::testing::TinyRun;

namespace {

const Json& cases(const char* kind) {
  static const Json all = Json::parse(std::ifstream(support::golden("train/reference_cases.json")));
  return all.at(kind);
}

/// JSON as the lines of training_hyperparams (JSON is YAML).
std::string lines_of(const Json& params) {
  std::string out;
  for (const auto& [key, value] : params.items()) out += "  " + key + ": " + value.dump() + "\n";
  return out;
}

/// What a user of the reference wrote in its tests: grows exponentially to the rate itself.
class ExponentialWarmup final : public optim::LrWarmup {
 public:
  struct Params {
    optim::WarmupStart start;
    static Params from(core::Node& n) { return {.start = optim::WarmupStart::from(n)}; }
  };
  ExponentialWarmup(const Params& params, const optim::RunLength& length)
      : params_(params), epochs_(length.warmup_epochs) {}
  std::optional<double> at(const optim::Position& position,
                           const optim::ParamGroup& group) override {
    if (!position.epoch_start || position.epoch > epochs_) return std::nullopt;
    const double start = params_.start.of(group).value_or(0.001), scale = std::exp(epochs_) - 1.0;
    return (group.initial_lr - start) / scale * std::exp(position.epoch) +
           (start * std::exp(epochs_) - group.initial_lr) / scale;
  }

 private:
  Params params_;
  int epochs_;
};
using optim::LrWarmup;
SGTRAIN_REGISTER(LrWarmup, ExponentialWarmup, "ExponentialWarmup");

struct Rates final : train::Callback {
  train::Requests on_train_loader_end(train::PhaseContext& c) override {
    train_end.push_back(c.run->optimizer->groups().front().lr);
    return {};
  }
  train::Requests on_validation_loader_end(train::PhaseContext& c) override {
    validation_end.push_back(c.run->optimizer->groups().front().lr);
    return {};
  }
  std::vector<double> train_end, validation_end;
};

/// Gives the values of a case, one per epoch.
class ListedMetric final : public metrics::Metric {
 public:
  void reset() override {}
  void update(const metrics::MetricInput&) override {}
  std::vector<metrics::MetricValue> describe() const override { return {{"Listed", 0.0, true}}; }
  std::vector<metrics::MetricValue> compute() override {
    return {{"Listed", values.at(static_cast<std::size_t>(calls++)), true}};
  }
  std::vector<at::Tensor> state() const override { return {}; }
  void merge(const std::vector<at::Tensor>&) override {}
  static inline std::vector<double> values;
  static inline int calls = 0;
};
using metrics::Metric;
SGTRAIN_REGISTER(Metric, ListedMetric, "ListedMetric");

}  // namespace

TEST_CASE("rates of the reference's tests, epoch by epoch", "[train]") {
  for (const Json& c : cases("rates")) {
    INFO(c["name"]);
    const TinyRun tiny("  max_epochs: " + c["epochs"].dump() + "\n  max_train_batches: 2\n" +
                       lines_of(c["params"]));
    const auto run = tiny.run();
    auto callback = std::make_unique<Rates>();
    const Rates& seen = *callback;
    run->callbacks.push_back({"rates", std::move(callback)});
    train::Trainer(*run).fit();
    const auto& rates = c["at"] == "train_end" ? seen.train_end : seen.validation_end;
    const std::vector<double> expected = c["rates"];
    REQUIRE(rates.size() == expected.size());
    for (std::size_t i = 0; i < rates.size(); ++i)
      CHECK(rates[i] == Approx(expected[i]).epsilon(1e-9));
  }
}

TEST_CASE("groups of the reference's tests, and what stays when they train", "[train]") {
  for (const Json& c : cases("groups")) {
    INFO(c["name"]);
    const TinyRun tiny("  max_epochs: 1\n  optimizer_params: {weight_decay: 0.01}\n" +
                       lines_of(c["params"]));
    const auto run = tiny.run();
    const auto& groups = run->optimizer->groups();
    REQUIRE(groups.size() == c["groups"].size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const Json& expected = c["groups"][i];
      CHECK(groups[i].name == expected[0]);
      CHECK(groups[i].lr == expected[1].get<double>());
      CHECK(groups[i].weight_decay == expected[2].get<double>());
      CHECK(groups[i].params.size() == expected[3].get<std::size_t>());
    }
    std::vector<at::Tensor> before;
    for (const auto& ref : run->model->named_parameters())
      before.push_back(ref.tensor->detach().clone());
    train::Trainer(*run).fit();
    std::size_t i = 0;
    for (const auto& ref : run->model->named_parameters()) {
      INFO(ref.name);
      const std::vector<std::string> prefixes = c["frozen"];
      const bool frozen = std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
        return ref.name.starts_with(prefix);
      });
      CHECK(ref.tensor->requires_grad() != frozen);
      CHECK(at::equal(*ref.tensor, before[i++]) == frozen);
    }
  }
}

TEST_CASE("runs stop in the epochs of the reference's tests", "[train]") {
  for (const Json& c : cases("early_stop")) {
    INFO(c.dump());
    ListedMetric::calls = 0;
    ListedMetric::values.clear();
    for (const Json& value : c["values"])
      ListedMetric::values.push_back(value.is_string() ? std::stod(value.get<std::string>())
                                                       : value.get<double>());
    Json params = c["params"];
    params["monitor"] = "Listed";
    const TinyRun tiny(
        "  max_epochs: 10\n  initial_lr: 0.01\n  max_train_batches: 1\n  max_valid_batches: 1\n"
        "  metric_to_watch: Listed\n  phase_callbacks: [{EarlyStop: " +
        params.dump() + "}]\n");
    const auto run =
        tiny.run(/*saves=*/false, {"training_hyperparams.valid_metrics_list=[ListedMetric]"});
    train::Trainer trainer(*run);
    trainer.fit();
    CHECK(trainer.state().epoch == c["epochs"].get<int>());
    CHECK(ListedMetric::calls == c["epochs"].get<int>());
    CHECK(trainer.state().stop_reason.has_value() == (c["epochs"] != 10));
  }
}

TEST_CASE("the ten best epochs are averaged, one that is no number never", "[train]") {
  ListedMetric::calls = 0;
  ListedMetric::values = {0.5, 0.1, 0.9, 0.2, NAN, 0.3, 0.4, 0.6, 0.7, 0.8, 0.55, 0.65, 0.15, 0.5};
  const TinyRun tiny(
      "  max_epochs: 13\n  initial_lr: 0.01\n  max_train_batches: 1\n  max_valid_batches: 1\n"
      "  metric_to_watch: Listed\n");
  const auto run =
      tiny.run(/*saves=*/true, {"training_hyperparams.valid_metrics_list=[ListedMetric]"});
  train::Trainer trainer(*run);
  trainer.fit();
  std::vector<int> epochs;
  for (const auto& slot : trainer.state().averaged) epochs.push_back(slot.epoch);
  std::sort(epochs.begin(), epochs.end());
  CHECK(epochs == std::vector<int>{0, 2, 3, 5, 6, 7, 8, 9, 10, 11});
  CHECK(std::filesystem::exists(tiny.run_dir() / "average_model.pth"));
}
