#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

struct AdamParams {
  Betas betas = {0.9, 0.999};  // decay of the first and second moment
  double eps = 1e-8;
  double weight_decay = 1e-4;  // the reference implementation's default, not torch's
  bool amsgrad = false;

  static AdamParams read(core::Node& node, double weight_decay) {
    AdamParams p;
    p.betas = read_betas(node, p.betas);
    p.eps = node.get_or("eps", p.eps).min(0.0);
    p.weight_decay = node.get_or("weight_decay", weight_decay).min(0.0);
    p.amsgrad = node.get_or("amsgrad", p.amsgrad);
    accept_torch_switches(node);
    return p;
  }
  static AdamParams from(core::Node& node) { return read(node, AdamParams{}.weight_decay); }
  template <class F>
  void visit(F&& f) {
    f("betas", betas);
    f("eps", eps);
    f("amsgrad", amsgrad);
  }
};

struct AdamWParams : AdamParams {
  static AdamWParams from(core::Node& node) {
    constexpr double kTorchDefault = 1e-2;
    return {AdamParams::read(node, kTorchDefault)};
  }
};

/// Adam, Kingma & Ba 2015, as torch.optim.Adam (weight decay as an L2 term of the gradient), and
/// AdamW, Loshchilov & Hutter 2019, as torch.optim.AdamW (weight decay apart from the gradient).
template <class P, bool kDecoupled>
class AdamBase : public MultiTensor<P> {
 public:
  using Params = P;
  using MultiTensor<P>::MultiTensor;

 protected:
  std::vector<Slot> slots() const override {
    std::vector<Slot> out = {{"exp_avg"}, {"exp_avg_sq"}};
    if (this->params_.amsgrad) out.push_back({"max_exp_avg_sq"});
    return out;
  }
  StepCount step_count() const override { return StepCount::kTensor; }

  void update(Batch& batch) override {
    const P& p = this->of(batch);
    const bool amsgrad = batch.slots.size() > 2;
    const std::vector<at::Tensor> none;
    const auto kernel = [&](auto function) {
      function(batch.params, batch.grads, batch.slots[0], batch.slots[1],
               amsgrad ? batch.slots[2] : none, batch.steps, batch.lr, p.betas[0], p.betas[1],
               batch.weight_decay, p.eps, amsgrad, /*maximize=*/false, std::nullopt, std::nullopt);
    };
    using Kernel =
        void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                 at::TensorList, double, double, double, double, double, bool, bool,
                 const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
    kernel(kDecoupled ? static_cast<Kernel>(at::_fused_adamw_)
                      : static_cast<Kernel>(at::_fused_adam_));
  }

  MultiTensorBase::Options options(std::size_t group) const override {
    auto out = MultiTensor<P>::options(group);
    for (const char* key : {"maximize", "capturable", "differentiable"}) {
      out.emplace_back(key, false);
    }
    for (const char* key : {"foreach", "fused"}) out.emplace_back(key, tensor::Value());
    out.emplace_back("decoupled_weight_decay", kDecoupled);
    return out;
  }
};

using Adam = AdamBase<AdamParams, false>;
using AdamW = AdamBase<AdamWParams, true>;

}  // namespace

SGTRAIN_REGISTER(Optimizer, Adam, "Adam");
SGTRAIN_REGISTER(Optimizer, AdamW, "AdamW");
}  // namespace sgtrain::optim
