#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "losses/loss.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

using namespace sgtrain;

namespace {

core::TreePtr cross_entropy(double smoothing) {
  const auto params = core::Tree::make_map(), named = core::Tree::make_map();
  params->set("smooth_eps", core::Tree::of(smoothing));
  named->set("CrossEntropyLoss", params);
  return named;
}

}  // namespace

TEST_CASE("distillation equals the goldens, gradient included", "[losses]") {
  const auto golden =
      tensor::read_safetensors(support::golden("losses/classification.safetensors"));
  struct Case {
    const char* name;
    double coeff, smoothing;
  };
  for (const Case& c : {Case{"kd.kl", 1.0, 0.0}, Case{"kd.logits_05", 0.5, 0.0},
                        Case{"kd.logits_08_smooth", 0.8, 0.1}}) {
    INFO(c.name);
    const std::string name = c.name;
    const auto loss = support::make_component<losses::Loss>(
        "KDLogitsLoss", {{"task_loss_fn", cross_entropy(c.smoothing)},
                         {"distillation_loss_coeff", core::Tree::of(c.coeff)}});
    const at::Tensor student = golden["ce.x"].clone().set_requires_grad(true);
    tensor::Targets targets;
    targets.labels = golden["ce.y"];
    const auto result =
        (*loss)({{"logits", student}, {"teacher.logits", golden["kd.teacher"]}}, targets);
    const at::Tensor total = result.total();
    total.backward();
    CHECK(support::relative_to_max(total.view({1}), golden[name + ".value"]) < 1e-5);
    CHECK(support::relative_to_max(student.grad(), golden[name + ".grad0"]) < 1e-5);
    const at::Tensor logged = result.components();  // task, divergence, total
    REQUIRE(logged.size(0) == 3);
    CHECK(logged[1].item<double>() == Approx(golden["kd.kl.value"].item<double>()).epsilon(1e-5));
    if (c.coeff == 1.0) continue;  // the golden is the divergence alone
    const at::Tensor reference = golden[name + ".components"];  // total, task, divergence
    CHECK(support::relative_to_max(logged, at::stack({reference[1], reference[2], reference[0]})) <
          1e-5);
  }
}

TEST_CASE("names and mistakes of the distillation loss", "[losses]") {
  const auto loss = support::make_component<losses::Loss>(
      "kd_loss", {{"task_loss_fn", core::Tree::of("CrossEntropyLoss")}});
  CHECK(loss->needs_teacher());
  CHECK(loss->component_names() == std::vector<std::string>{"KDLogitsLoss/Task Loss",
                                                            "KDLogitsLoss/Distillation Loss",
                                                            "KDLogitsLoss/Loss"});
  tensor::Targets targets;
  targets.labels = at::zeros({2}, at::kLong);
  CHECK_THROWS_WITH(
      (*loss)({{"logits", at::zeros({2, 5})}, {"teacher.logits", at::zeros({2, 4})}}, targets),
      Catch::Contains("differ in shape"));
  CHECK_THROWS_WITH(support::make_component<losses::Loss>("KDLogitsLoss", {}),
                    Catch::Contains("task_loss_fn"));
  CHECK_THROWS_WITH(support::make_component<losses::Loss>(
                        "KDLogitsLoss", {{"task_loss_fn", core::Tree::of("CrossEntropyLoss")},
                                         {"distillation_loss_coeff", core::Tree::of(1.5)}}),
                    Catch::Contains("distillation_loss_coeff"));
  CHECK_THROWS_WITH(support::make_component<losses::Loss>(
                        "KDLogitsLoss", {{"task_loss_fn", core::Tree::of("CrossEntropyLoss")},
                                         {"distillation_loss_fn", core::Tree::of("MSELoss")}}),
                    Catch::Contains("KDklDivLoss"));
}
