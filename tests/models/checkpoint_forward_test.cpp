// Files of golden/checkpoints through the tiny model they were trained with: outputs as the
// reference's.
#include <catch2/catch.hpp>
#include <filesystem>

#include "models/build.h"
#include "support/build_model.h"
#include "support/fill.h"
#include "support/golden.h"
#include "tensor/checkpoint.h"
#include "tensor/safetensors.h"

namespace sgtrain::models {
namespace {

at::Tensor forward(const tensor::StateDict& state, const std::string& where) {
  const auto model = support::build_model(
      "custom_resnet_cifar", 10,
      {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", core::Tree::of(0.125)}});
  load_state(*model, state, StrictLoad::kOn, where);
  model->eval();
  const at::NoGradGuard no_grad;
  return model->run(support::rule_input({2, 3, 32, 32}))["logits"];
}

TEST_CASE("the reference's checkpoints give the reference's outputs") {
  const auto golden = tensor::read_safetensors(support::golden("checkpoints/forward.safetensors"));
  constexpr double kTolerance = 2e-6;
  for (const bool ema : {false, true}) {
    const auto file = support::golden("checkpoints/ckpt_latest.pth");
    const auto output = forward(tensor::read_weights(file, ema).tensors, file.string());
    CHECK(support::relative_to_max(output, golden[ema ? "ema_net.out" : "net.out"]) < kTolerance);
  }
  // models.get(checkpoint_path=…) there: each kind of file.
  for (const auto& [file, key] : std::vector<std::pair<std::string, std::string>>{
           {"ckpt_latest.pth", "models_get_latest.out"},
           {"average_model.pth", "models_get_average.out"},
           {"ckpt_ddp_module_prefix.pth", "models_get_ddp.out"},
           {"ckpt_legacy_nonzip.pth", "models_get_legacy.out"},
           {"bare_state_dict.pth", "models_get_bare.out"}}) {
    INFO(file);
    const auto weights = tensor::read_weights(support::golden("checkpoints/" + file));
    CHECK(support::relative_to_max(forward(weights.tensors, file), golden[key]) < kTolerance);
  }
}

TEST_CASE("the trained network of the goldens is read [data]", "[data]") {
  const std::filesystem::path file =
      std::filesystem::path(SGTRAIN_SHARED_DIR) / "golden/trained/yolo_nas_s_bccd.pth";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: no " << file);
    return;
  }
  const auto weights = tensor::read_weights(file);
  CHECK(weights.source == "net");
  CHECK(weights.processing_params["class_names"].items().size() == 3);
  const auto model = support::build_model("yolo_nas_s", 3);
  const auto report = load_state(*model, weights.tensors, StrictLoad::kOn, file.string());
  CHECK(report.matched == weights.tensors.size());
}

}  // namespace
}  // namespace sgtrain::models
