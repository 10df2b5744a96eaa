// The reference trainer's numbers (golden/train, golden/train_steps) through the real Trainer and
// TrainStep: recipe, accumulation, clipping, schedules, moving average and all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "optim/clip.h"
#include "optim/param_groups.h"
#include "support/build_model.h"
#include "support/component.h"
#include "support/fill.h"
#include "support/golden.h"
#include "tensor/safetensors.h"
#include "train/replicas.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using Json = nlohmann::ordered_json;
using train::testing::TinyRun;

namespace {

constexpr int kBatchSize = 8;

const tensor::SafetensorsFile& batches() {
  static const auto data = tensor::read_safetensors(support::golden("train/batches.safetensors"));
  return data;
}

/// Feeds the golden's batches to the network, and writes down every loss and rate.
struct GoldenBatches final : train::Callback {
  struct Step {
    double loss;
    bool stepped = false;
    std::vector<double> used{}, after{};
  };

  void before_forward(at::Tensor& images, tensor::Targets& targets,
                      train::PhaseContext& c) override {
    const int from = c.batch_index * kBatchSize;
    images = batches()["train_x"].slice(0, from, from + kBatchSize).to(images.scalar_type());
    targets.labels = batches()["train_y"].slice(0, from, from + kBatchSize);
  }
  train::Requests on_train_batch_loss_end(train::PhaseContext& c) override {
    steps.push_back({.loss = c.losses->back()});
    return {};
  }
  train::Requests on_train_batch_backward_end(train::PhaseContext& c) override {
    steps.back().used = rates(*c.run);
    return {};
  }
  train::Requests on_train_batch_gradient_step_end(train::PhaseContext&) override {
    steps.back().stepped = true;
    return {};
  }
  train::Requests on_train_batch_end(train::PhaseContext& c) override {
    steps.back().after = rates(*c.run);
    return {};
  }
  static std::vector<double> rates(const train::Run& run) {
    std::vector<double> out;
    for (const auto& group : run.optimizer->groups()) out.push_back(group.lr);
    return out;
  }
  std::vector<Step> steps;
};

/// The configuration of a golden (values as Python's text) as YAML.
std::string yaml(const Json& value) {
  if (value.is_string()) return value == "None" ? "null" : value.get<std::string>();
  if (!value.is_object()) return value.dump();
  std::string out = "{";
  for (const auto& [key, entry] : value.items()) out += key + ": " + yaml(entry) + ", ";
  return out + "}";
}

struct Trained {
  std::vector<GoldenBatches::Step> steps;
  tensor::StateDict net, ema;
};

Trained fit(const Json& config, const std::string& precision) {
  std::string lines = "  precision: " + precision + "\n  average_best_models: False\n";
  for (const auto& [key, value] : config.items()) {
    if (key != "loss") lines += "  " + key + ": " + yaml(value) + "\n";
  }
  const TinyRun tiny(lines, /*batch_size=*/4, /*test_set=*/false, /*shuffle=*/false);
  const auto run = tiny.run(/*saves=*/false, {"arch_params.width_mult=0.125"});
  constexpr double kGain = 1.2;
  support::fill_by_rule(*run->model, kGain);
  if (precision == "fp32") {  // in the reference's memory layout, whose rounding is its own
    for (const auto& ref : run->model->state()) ref.tensor->set_data(ref.tensor->contiguous());
  }
  if (run->ema) run->ema->reset(*run->model);
  auto callback = std::make_unique<GoldenBatches>();
  const GoldenBatches& seen = *callback;
  run->callbacks.push_back({"golden", std::move(callback)});
  train::Trainer(*run).fit();
  return {.steps = seen.steps,
          .net = run->model->state_dict(),
          .ema = run->ema ? run->ema->state_dict() : tensor::StateDict{}};
}

/// The reference's own runs in single and double precision part ways: final weights say less.
bool drifts(const std::vector<std::vector<std::string>>& rows) {
  return std::any_of(rows.begin() + 1, rows.end(), [](const auto& row) {
    return std::abs(std::stod(row[3]) - std::stod(row[4])) > 1e-4;
  });
}

void check_steps(const std::string& name, const Trained& trained, bool exact) {
  const auto rows = support::read_rows(support::golden("train/trajectory_" + name + ".csv"), ',');
  REQUIRE(trained.steps.size() + 1 == rows.size());
  for (std::size_t i = 0; i < trained.steps.size(); ++i) {
    INFO("step " << i);
    const auto& row = rows[i + 1];
    const auto& step = trained.steps[i];
    // The reference's Lamb sums the gradient norm in single precision whatever the weights are.
    const double in_double = name.starts_with("lamb") ? 1e-7 : 1e-8;
    const double tolerance = exact ? in_double : i < 10 ? 1e-5 : 5e-3;
    CHECK(step.loss == Approx(std::stod(row[exact ? 4 : 3])).epsilon(0.0).margin(tolerance));
    CHECK(step.stepped == (row[5] == "1"));
    const std::size_t groups = step.used.size();
    REQUIRE(row.size() == 6 + 2 * groups);
    for (std::size_t g = 0; g < groups; ++g) {
      CHECK(step.used[g] == Approx(std::stod(row[6 + g])).epsilon(1e-9).margin(0.0));
      CHECK(step.after[g] == Approx(std::stod(row[6 + groups + g])).epsilon(1e-9).margin(0.0));
    }
  }
  if (exact) return;
  const double tolerance = drifts(rows) ? 3e-2 : 1e-3;
  const auto weights =
      support::read_rows(support::golden("train/trajectory_" + name + ".weights.csv"), ',');
  CHECK(weights.size() > 50);
  for (std::size_t r = 1; r < weights.size(); ++r) {
    INFO(weights[r][0] << " " << weights[r][1]);
    const auto& state = weights[r][0] == "net" ? trained.net : trained.ema;
    const auto found = std::find_if(state.begin(), state.end(), [&](const auto& entry) {
      return entry.first == weights[r][1];
    });
    REQUIRE(found != state.end());
    CHECK(found->second.to(at::kDouble).norm().item<double>() ==
          Approx(std::stod(weights[r][4])).epsilon(tolerance).margin(tolerance));
  }
  const auto whole = support::golden("train/trajectory_" + name + ".safetensors");
  if (!std::filesystem::exists(whole)) return;
  const auto expected = tensor::read_safetensors(whole);
  for (const auto& [prefix, state] :
       {std::pair("net:", trained.net), std::pair("ema:", trained.ema)}) {
    for (const auto& [key, value] : state) {
      INFO(prefix << key);
      const at::Tensor golden = expected[prefix + key].reshape(value.sizes());
      CHECK(support::relative_to_max(value, golden) <
            (value.is_floating_point() ? tolerance : 1e-12));
    }
  }
}

}  // namespace

TEST_CASE("twenty steps of the Trainer equal the reference trainer's", "[train]") {
  const Json summary = Json::parse(std::ifstream(support::golden("train/summary.json")));
  CHECK(summary.size() == 8);
  for (const auto& [name, entry] : summary.items()) {
    for (const bool exact : {true, false}) {
      INFO(name << (exact ? " double" : " float"));
      check_steps(name, fit(entry["cfg"], exact ? "fp64" : "fp32"), exact);
    }
  }
}

TEST_CASE("whole training steps through TrainStep equal the reference's", "[train]") {
  struct Case {
    const char* name;
    double gain, lr;
    const char* loss;
    support::ComponentKeys params;
    int classes;
    int steps;
  };
  const std::vector<Case> cases{
      {"resnet18", 1.1, 0.001, "CrossEntropyLoss", {{"smooth_eps", core::Tree::of(0.1)}}, 1000, 4},
      {"mobilenet_v2", 1.3, 0.0001, "CrossEntropyLoss", {}, 1000, 4},
      {"yolo_nas_s",
       0.8,
       2e-6,
       "PPYoloELoss",
       {{"num_classes", core::Tree::of(std::int64_t{80})},
        {"use_static_assigner", core::Tree::of(false)}},
       80,
       2}};
  const auto targets = tensor::read_safetensors(support::golden("train_steps/targets.safetensors"));
  for (const Case& c : cases) {
    INFO(c.name);
    const auto model = support::build_model(c.name, c.classes);
    support::fill_by_rule(*model, c.gain);
    model->to(at::kDouble);
    model->train();
    const auto loss = support::make_component<losses::Loss>(c.loss, c.params);
    const auto optimizer = support::make_component<optim::Optimizer>(
        "SGD", {{"momentum", core::Tree::of(0.9)}, {"weight_decay", core::Tree::of(0.0)}});
    optimizer->bind(optim::param_groups(*model, {.initial_lr = {{"default", c.lr}},
                                                 .no_decay_on_bias_and_norm = false,
                                                 .finetune_prefixes = {}}));
    const auto comm = dist::make_single();
    dist::Reducer reducer(*comm, train::reduced_parameters(*model), {});
    train::TrainStep step(
        *model, *loss, *comm, reducer,
        {.input = {.normalisation = {}, .dtype = at::kDouble}, .precision = at::kDouble});
    tensor::Batch batch;
    batch.images = at::zeros({2, 128, 128, 3}, at::kByte);
    if (std::string(c.loss) == "PPYoloELoss") {
      batch.targets.boxes = targets["det_targets"];
    } else {
      batch.targets.labels = targets["cls_target"];
    }
    const train::StepHooks hooks{
        .before_forward =
            [](at::Tensor& images, tensor::Targets&) {
              images = support::rule_input({2, 3, 128, 128}).to(at::kDouble);
            },
        .loss_end = {},
        .backward_end = {}};
    const auto rows =
        support::read_rows(support::golden("train_steps/" + std::string(c.name) + ".csv"), ',');
    for (int i = 0; i < c.steps; ++i) {
      INFO("step " << i);
      const auto output =
          step.run(batch, /*last=*/true, /*share=*/1.0, {}, core::Random({0}), hooks);
      const auto& row = rows.at(static_cast<std::size_t>(i) + 1);
      REQUIRE((row[0] == "fp64" && std::stoi(row[1]) == i));
      const auto& components = output.loss.components;
      CHECK(components.back() == Approx(std::stod(row[2])).epsilon(1e-6));
      for (std::size_t k = 0; components.size() > 1 && k < components.size(); ++k)
        CHECK(components[k] == Approx(std::stod(row.at(4 + k))).epsilon(1e-6));
      CHECK(optim::grad_norm(optimizer->gradients()).item<double>() ==
            Approx(std::stod(row[3])).epsilon(1e-5));
      optimizer->step();
      optimizer->zero_grad();
    }
  }
}
