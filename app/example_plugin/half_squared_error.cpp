#include <ATen/ATen.h>

#include "losses/loss.h"

namespace sgtrain::losses {
namespace {

/// Half the squared distance of the logits [B, C] to the one-hot labels [B], mean over samples.
class HalfSquaredErrorLoss final : public Loss {
 public:
  struct Params {
    double scale = 1.0;  // factor of the whole loss
    static Params from(core::Node& node) { return {.scale = node.get_or("scale", 1.0)}; }
  };
  explicit HalfSquaredErrorLoss(const Params& params) : params_(params) {}

  LossResult operator()(const tensor::ModelOutput& output,
                        const tensor::Targets& targets) override {
    const at::Tensor logits = output["logits"].to(at::kFloat);
    const at::Tensor wanted = at::one_hot(targets.labels, logits.size(1)).to(at::kFloat);
    const auto samples = static_cast<double>(logits.size(0));
    return {{{.name = "",
              .sum = 0.5 * params_.scale * (logits - wanted).square().sum(),
              .normaliser = at::full({}, samples, logits.options())}}};
  }
  std::string name() const override { return "HalfSquaredErrorLoss"; }

 private:
  Params params_;
};

}  // namespace
SGTRAIN_REGISTER(Loss, HalfSquaredErrorLoss, "HalfSquaredErrorLoss");
}  // namespace sgtrain::losses
