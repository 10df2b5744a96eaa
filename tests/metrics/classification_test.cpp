#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "metrics/metric.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

using namespace sgtrain;

namespace {

void update(metrics::Metric& metric, const at::Tensor& logits, const at::Tensor& labels) {
  const tensor::ModelOutput output = {{"logits", logits}};
  tensor::Targets targets;
  targets.labels = labels;
  const std::vector<std::int64_t> indices(static_cast<std::size_t>(logits.size(0)), 0);
  metric.update({output, targets, 32, 32, indices});
}

}  // namespace

TEST_CASE("Accuracy and Top5 equal the goldens", "[metrics]") {
  const auto golden =
      tensor::read_safetensors(support::golden("metrics/classification.safetensors"));
  std::ifstream file(support::golden("metrics/values.json"));
  const auto values = nlohmann::json::parse(file)["classification"];
  for (const std::string name : {"Accuracy", "Top5"}) {
    const auto metric = support::make_component<metrics::Metric>(name);
    CHECK(metric->describe().at(0).name == name);
    CHECK(metric->compute().at(0).value == 0.0);
    for (int i = 0; i < 3; ++i) {
      const std::string n = std::to_string(i);
      update(*metric, golden["preds" + n], golden["target" + n]);
      CHECK(metric->compute().at(0).value ==
            Approx(values["after" + n][name].get<double>()).margin(1e-6));
    }
    metric->reset();
    update(*metric, golden["preds2"], golden["soft_target"]);
    CHECK(metric->compute().at(0).value ==
          Approx(values["soft_target"][name].get<double>()).margin(1e-6));
  }
}

TEST_CASE("accuracies merge to the value of one process", "[metrics]") {
  const auto golden =
      tensor::read_safetensors(support::golden("metrics/classification.safetensors"));
  const auto whole = support::make_component<metrics::Metric>("Top5"),
             a = support::make_component<metrics::Metric>("Top5"),
             b = support::make_component<metrics::Metric>("Top5");
  update(*whole, golden["preds0"], golden["target0"]);
  update(*whole, golden["preds1"], golden["target1"]);
  update(*a, golden["preds0"], golden["target0"]);
  update(*b, golden["preds1"], golden["target1"]);
  b->merge(a->state());
  CHECK(b->compute().at(0).value == whole->compute().at(0).value);
}

TEST_CASE("Top5 of fewer than five classes counts everything", "[metrics]") {
  const auto metric = support::make_component<metrics::Metric>("Top5");
  update(*metric, at::randn({4, 3}), at::tensor({0, 1, 2, 0}, at::kLong));
  CHECK(metric->compute().at(0).value == 1.0);
}
