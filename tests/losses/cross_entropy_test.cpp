#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "losses/loss.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

using namespace sgtrain;
using support::ComponentKeys;

namespace {

struct Run {
  at::Tensor value, gradient, components;
};

Run run(const ComponentKeys& keys, const at::Tensor& logits, const at::Tensor& target) {
  const auto loss = support::make_component<losses::Loss>("CrossEntropyLoss", keys);
  const at::Tensor x = logits.clone().set_requires_grad(true);
  tensor::Targets targets;
  (target.dim() == 3 ? targets.masks : targets.labels) = target;
  const losses::LossResult result = (*loss)({{"logits", x}}, targets);
  const at::Tensor total = result.total();
  total.backward();
  return {total.detach(), x.grad(), result.components()};
}

core::TreePtr real(double v) {
  return core::Tree::of(v);
}
core::TreePtr integer(std::int64_t v) {
  return core::Tree::of(v);
}

}  // namespace

TEST_CASE("cross entropy equals the goldens", "[losses]") {
  const auto golden =
      tensor::read_safetensors(support::golden("losses/classification.safetensors"));
  const at::Tensor x = golden["ce.x"], y = golden["ce.y"];
  const at::Tensor& w = golden["ce.w"];
  std::vector<double> weights, uniform(7, 1.0 / 7);
  for (int i = 0; i < 7; ++i) weights.push_back(w[i].item<double>());
  struct Case {
    const char* name;
    ComponentKeys keys;
    at::Tensor x, y;
  };
  const std::vector<Case> cases = {
      {"ce.plain", {}, x, y},
      {"ce.smooth01", {{"smooth_eps", real(0.1)}}, x, y},
      {"ce.smooth01_sum", {{"smooth_eps", real(0.1)}, {"reduction", core::Tree::of("sum")}}, x, y},
      {"ce.smooth01_ignore3",
       {{"smooth_eps", real(0.1)}, {"ignore_index", integer(3)}},
       x,
       golden["ce.y_ignore3"]},
      {"ce.weight", {{"weight", support::numbers(weights)}}, x, y},
      {"ce.weight_smooth01",
       {{"weight", support::numbers(weights)}, {"smooth_eps", real(0.1)}},
       x,
       y},
      {"ce.soft_targets", {}, x, golden["ce.soft"]},
      {"ce.smooth_dist",
       {{"smooth_eps", real(0.2)}, {"smooth_dist", support::numbers(uniform)}},
       x,
       y},
      {"ce.dense", {}, golden["ce.x4"], golden["ce.y4"]},
      {"ce.dense_ignore1", {{"ignore_index", integer(1)}}, golden["ce.x4"], golden["ce.y4"]},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const std::string name = c.name;
    const Run r = run(c.keys, c.x, c.y);
    CHECK(support::relative_to_max(r.value.view({1}), golden[name + ".value"]) < 1e-5);
    CHECK(support::relative_to_max(r.components, golden[name + ".components"]) < 1e-5);
    CHECK(support::relative_to_max(r.gradient, golden[name + ".grad0"]) < 1e-5);
  }
}

TEST_CASE("cross entropy from log-probabilities is the one from logits", "[losses]") {
  const at::Tensor x = at::randn({5, 4}), y = at::tensor({0, 1, 2, 3, 1}, at::kLong);
  const Run logits = run({}, x, y);
  const Run log_p = run({{"from_logits", core::Tree::of(false)}}, x.log_softmax(1), y);
  CHECK(std::abs(logits.value.item<double>() - log_p.value.item<double>()) < 1e-6);
}

TEST_CASE("cross entropy of ignored ids only is zero, with zero gradients", "[losses]") {
  const at::Tensor x = at::randn({3, 4}), y = at::full({3}, -100, at::kLong);
  for (const double eps : {0.0, 0.1}) {
    const Run r = run({{"smooth_eps", real(eps)}}, x, y);
    CHECK(r.value.item<double>() == 0.0);
    CHECK(r.gradient.abs().max().item<double>() == 0.0);
  }
}

TEST_CASE("dense smoothing works over the class dimension", "[losses]") {
  const at::Tensor x = at::randn({2, 3, 4, 5}), y = at::randint(0, 3, {2, 4, 5}, at::kLong);
  const Run dense = run({{"smooth_eps", real(0.1)}}, x, y);
  const at::Tensor rows = x.permute({0, 2, 3, 1}).reshape({-1, 3});
  const Run flat = run({{"smooth_eps", real(0.1)}}, rows, y.flatten());
  CHECK(std::abs(dense.value.item<double>() - flat.value.item<double>()) < 1e-6);
}

TEST_CASE("cross entropy says what does not fit", "[losses]") {
  const at::Tensor x = at::randn({3, 4}), y = at::zeros({3}, at::kLong);
  CHECK_THROWS_WITH(run({{"weight", support::numbers({1, 2})}}, x, y),
                    Catch::Contains("2 values") && Catch::Contains("4 classes"));
  CHECK_THROWS_WITH(run({{"reduction", core::Tree::of("none")}}, x, y),
                    Catch::Contains("reduction"));
  CHECK_THROWS_WITH(run({{"smooth_esp", real(0.1)}}, x, y), Catch::Contains("smooth_eps"));
  CHECK_THROWS_WITH(run({{"weight", support::numbers({1, -2, 1, 1})}}, x, y),
                    Catch::Contains("negative"));
}
