#include "core/error.h"
#include "core/text.h"
#include "losses/loss.h"

namespace sgtrain::losses {
namespace {

/// Knowledge distillation on logits (Hinton et al. 2015, at temperature 1):
/// (1 - c) * task + c * KL(teacher || student), the divergence summed over classes and averaged
/// over images. Output: what the task loss takes, "logits" [B, C, …] and "teacher.logits" of the
/// same shape; targets: what the task loss takes. Logged without their weights, as the reference
/// does: "Task Loss" (or the parts of a task loss that has several), "Distillation Loss" (nats).
class KDLogitsLoss final : public Loss {
 public:
  struct Params {
    Loss::Registry::MakerType task_loss;
    double distillation_coeff = 0.5;  // c, in [0, 1]

    static Params from(core::Node& n) {
      Params p;
      p.task_loss = Loss::registry().parse(n.component("task_loss_fn"));
      p.distillation_coeff = n.get_or("distillation_loss_coeff", p.distillation_coeff)
                                 .in(0.0, 1.0)
                                 .help("weight of the divergence; the task's is the rest");
      if (const auto distillation = n.find_component("distillation_loss_fn");
          distillation && core::fuzzy_key(distillation->name) != "kdkldivloss") {
        n.problem("distillation_loss_fn", "only KDklDivLoss is known, which is the default");
      }
      return p;
    }
  };

  explicit KDLogitsLoss(const Params& params)
      : task_(params.task_loss()), coeff_(params.distillation_coeff) {}

  LossResult operator()(const tensor::ModelOutput& output,
                        const tensor::Targets& targets) override {
    LossResult result = (*task_)(output, targets);
    for (LossTerm& term : result.terms) {
      term.logged_weight = term.weight;
      term.weight *= 1.0 - coeff_;
    }
    const at::Tensor& student = output["logits"];
    const at::Tensor& teacher = output["teacher.logits"];
    if (student.sizes() != teacher.sizes())
      throw core::Error("KDLogitsLoss: logits of student and teacher differ in shape");
    const at::Tensor divergence =
        at::kl_div(student.log_softmax(1), teacher.softmax(1), at::Reduction::Sum);
    result.terms.push_back({.name = "Distillation Loss",
                            .sum = divergence,
                            .normaliser = at::full({}, static_cast<double>(student.size(0)),
                                                   divergence.options().requires_grad(false)),
                            .weight = coeff_,
                            .logged_weight = 1.0});
    return result;
  }

  std::string name() const override { return "KDLogitsLoss"; }

  std::vector<std::string> component_names() const override {
    std::vector<std::string> names = task_->component_names();
    if (names.size() > 1) names.pop_back();  // its total
    if (names.size() == 1) {
      names = {"Task Loss"};
    } else {
      for (std::string& part : names) part = part.substr(part.find('/') + 1);
    }
    names.insert(names.end(), {"Distillation Loss", "Loss"});
    for (std::string& part : names) part = name() + "/" + part;
    return names;
  }

  bool needs_teacher() const override { return true; }

 private:
  std::unique_ptr<Loss> task_;
  double coeff_;
};

}  // namespace
SGTRAIN_REGISTER(Loss, KDLogitsLoss, "KDLogitsLoss", "kd_loss");
}  // namespace sgtrain::losses
