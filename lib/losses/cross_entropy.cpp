#include <optional>

#include "core/error.h"
#include "losses/loss.h"

namespace sgtrain::losses {
namespace {

/// Cross entropy with class ids or soft labels, label smoothing (Szegedy et al. 2016) towards the
/// uniform or a given distribution, class weights and an ignored id. Output: "logits" [B, C, …];
/// targets: labels (int64 [B] or float [B, C]), else masks (int64 [B, H, W]). A mean over nothing
/// (all ids ignored) is 0.
class CrossEntropyLoss final : public Loss {
 public:
  struct Params {
    std::optional<std::vector<double>> weight;  // of each class
    std::int64_t ignore_index = -100;
    std::string reduction = "mean";
    double smooth_eps = 0.0;  // weight of the smoothing distribution, in [0, 1)
    std::optional<std::vector<double>> smooth_dist;  // absent: uniform
    bool from_logits = true;                         // False: the output is log-probabilities

    static Params from(core::Node& n) {
      Params p;
      p.weight = n.find<std::vector<double>>("weight");
      p.ignore_index = n.get_or<std::int64_t>("ignore_index", p.ignore_index);
      p.reduction = n.get_or("reduction", p.reduction).one_of({"mean", "sum"});
      p.smooth_eps = n.get_or("smooth_eps", p.smooth_eps).in(0.0, 1.0).help("label smoothing");
      p.smooth_dist = n.find<std::vector<double>>("smooth_dist");
      p.from_logits = n.get_or("from_logits", p.from_logits);
      for (const auto& [key, values] :
           {std::pair{"weight", &p.weight}, {"smooth_dist", &p.smooth_dist}}) {
        if (!*values) continue;
        for (const double value : **values) {
          if (!(value >= 0)) n.problem(key, "must not be negative");
        }
      }
      return p;
    }
  };

  explicit CrossEntropyLoss(const Params& params) : params_(params) {}

  LossResult operator()(const tensor::ModelOutput& output,
                        const tensor::Targets& targets) override {
    const at::Tensor& raw = output["logits"];
    const at::Tensor x = raw.scalar_type() == at::kDouble ? raw : raw.to(at::kFloat);
    const at::Tensor log_p = params_.from_logits ? x.log_softmax(1) : x;
    const at::Tensor& target = targets.labels.defined() ? targets.labels : targets.masks;
    if (!target.defined())
      throw core::Error("CrossEntropyLoss: the data set gives neither labels nor masks");
    const at::Tensor weight = per_class(params_.weight, "weight", log_p);
    Sum sum =
        target.is_floating_point() ? soft(log_p, weight, target) : hard(log_p, weight, target);
    if (params_.reduction == "sum") sum.normaliser = at::ones_like(sum.normaliser);
    return {{{"", sum.loss, sum.normaliser, 1.0, 1e-12}}};
  }

  std::string name() const override { return "CrossEntropyLoss"; }

 private:
  struct Sum {
    at::Tensor loss, normaliser;
  };

  /// A parameter as tensor of the logits' type, shape [C, 1, …] to go with [B, C, …].
  static at::Tensor per_class(const std::optional<std::vector<double>>& values, const char* key,
                              const at::Tensor& like) {
    if (!values) return {};
    if (static_cast<std::int64_t>(values->size()) != like.size(1)) {
      throw core::Error("CrossEntropyLoss: " + std::string(key) + " has " +
                        std::to_string(values->size()) + " values, but the model has " +
                        std::to_string(like.size(1)) + " classes");
    }
    std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim() - 1), 1);
    shape[0] = like.size(1);
    return at::tensor(*values, at::kDouble).to(like.options().requires_grad(false)).view(shape);
  }

  /// Mean over samples.
  Sum soft(const at::Tensor& log_p, const at::Tensor& weight, const at::Tensor& target) const {
    if (target.sizes() != log_p.sizes()) {
      throw core::Error("CrossEntropyLoss: soft labels differ in shape from the logits");
    }
    at::Tensor q = target.to(log_p.scalar_type());
    if (params_.smooth_eps > 0 && params_.smooth_dist) {
      q = q.lerp(per_class(params_.smooth_dist, "smooth_dist", log_p), params_.smooth_eps);
    }
    const at::Tensor weighted = weight.defined() ? log_p * weight : log_p;
    return {-(q * weighted).sum(), count(target.numel() / target.size(1), log_p)};
  }

  /// Mean over ids that count; weighted by class only without smoothing (as torch and the reference
  /// do).
  Sum hard(const at::Tensor& log_p, const at::Tensor& weight, const at::Tensor& target) const {
    const at::Tensor counts = target != params_.ignore_index;
    const at::Tensor ids = at::where(counts, target, 0).unsqueeze(1);
    const at::Tensor weighted = weight.defined() ? log_p * weight : log_p;
    at::Tensor chosen = weighted.gather(1, ids).squeeze(1);
    if (params_.smooth_eps > 0) {
      const at::Tensor spread =
          params_.smooth_dist
              ? (weighted * per_class(params_.smooth_dist, "smooth_dist", log_p)).sum(1)
              : weighted.mean(1);
      chosen = (1 - params_.smooth_eps) * chosen + params_.smooth_eps * spread;
    }
    const at::Tensor loss = -at::where(counts, chosen, 0).sum();
    if (weight.defined() && params_.smooth_eps == 0) {
      return {loss, (weight.flatten().index_select(0, ids.flatten()) * counts.flatten()).sum()};
    }
    return {loss, counts.sum().to(log_p.scalar_type())};
  }

  static at::Tensor count(std::int64_t n, const at::Tensor& like) {
    return at::full({}, static_cast<double>(n), like.options().requires_grad(false));
  }

  Params params_;
};

}  // namespace
SGTRAIN_REGISTER(Loss, CrossEntropyLoss, "CrossEntropyLoss", "cross_entropy");
}  // namespace sgtrain::losses
