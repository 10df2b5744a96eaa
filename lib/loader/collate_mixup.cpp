#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "loader/batch_transform.h"

namespace sgtrain::loader {
namespace {

/// A window, end exclusive.
struct Window {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  double share(std::int64_t height, std::int64_t width) const {
    return static_cast<double>((bottom - top) * (right - left)) /
           (static_cast<double>(height) * static_cast<double>(width));
  }
};

/// mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019): image i is mixed with image B-1-i, and
/// labels become soft, smoothed mixtures. Runs on the device after normalisation, which gives the
/// same values as before it, since both are linear per pixel.
class CollateMixup final : public BatchTransform {
 public:
  enum class Mode { kBatch, kPair, kElement };
  struct Params {
    double mixup_alpha = 1.0;
    double cutmix_alpha = 0.0;
    std::vector<double> cutmix_minmax;  // sides of the window as shares; empty: from lambda
    double prob = 1.0;
    double switch_prob = 0.5;  // of CutMix, where both are on
    Mode mode = Mode::kBatch;
    bool correct_lam = true;
    double label_smoothing = 0.1;
    std::int64_t num_classes = 1000;

    static Params from(core::Node& n) {
      Params p;
      p.mixup_alpha = n.get_or("mixup_alpha", 1.0).min(0.0);
      p.cutmix_alpha = n.get_or("cutmix_alpha", 0.0).min(0.0);
      if (const auto range = n.find<std::vector<double>>("cutmix_minmax")) {
        p.cutmix_minmax = *range;
        p.cutmix_alpha = 1.0;
        if (range->size() != 2 ||
            !((*range)[0] > 0.0 && (*range)[0] < (*range)[1] && (*range)[1] < 1.0)) {
          n.problem("cutmix_minmax", "expected [low, high] with 0 < low < high < 1");
          p.cutmix_minmax.clear();
        }
      }
      p.prob = n.get_or("prob", 1.0).in(0.0, 1.0);
      p.switch_prob = n.get_or("switch_prob", 0.5).in(0.0, 1.0);
      const std::string mode = n.get_or("mode", "batch").one_of({"batch", "pair", "elem"});
      p.mode = mode == "pair" ? Mode::kPair : mode == "elem" ? Mode::kElement : Mode::kBatch;
      p.correct_lam = n.get_or("correct_lam", true);
      p.label_smoothing = n.get_or("label_smoothing", 0.1).in(0.0, 1.0);
      p.num_classes = n.get_or("num_classes", std::int64_t{1000}).in(1, 10'000'000);
      if (!n.describing() && p.prob > 0.0 && p.mixup_alpha <= 0.0 && p.cutmix_alpha <= 0.0) {
        n.problem("one of mixup_alpha, cutmix_alpha and cutmix_minmax must be given above 0");
      }
      return p;
    }
  };
  explicit CollateMixup(const Params& params) : p_(params) {}

  void apply(at::Tensor& images, tensor::Targets& targets, core::Random& random) const override {
    if (!targets.labels.defined()) {
      throw core::Error("CollateMixup mixes class labels, but the batch has none");
    }
    const std::int64_t size = images.size(0);
    const at::Tensor others = images.flip(0);
    at::Tensor out = images.clone();
    std::vector<double> lambdas(static_cast<std::size_t>(size), 1.0);
    if (p_.mode == Mode::kBatch) {
      const double lambda = mix(out, others, random);
      std::fill(lambdas.begin(), lambdas.end(), lambda);
    } else {
      mix_each(out, others, lambdas, random);
    }
    targets.labels = soft_labels(targets.labels, lambdas, images.options());
    images = out;
  }
  bool makes_soft_labels() const override { return true; }

 private:
  /// Mixes `others` into `out` (both [..., H, W]) with one lambda, which is returned.
  double mix(at::Tensor& out, const at::Tensor& others, core::Random& random) const {
    const auto [lambda, cut] = draw(random);
    if (lambda >= 1.0) return 1.0;
    if (!cut) {
      out.mul_(lambda).add_(others, 1.0 - lambda);
      return lambda;
    }
    const std::int64_t height = out.size(-2), width = out.size(-1);
    const Window w = window(lambda, height, width, random);
    const auto view = [&w](const at::Tensor& t) {
      return t.slice(-2, w.top, w.bottom).slice(-1, w.left, w.right);
    };
    view(out).copy_(view(others));
    const bool corrected = p_.correct_lam || !p_.cutmix_minmax.empty();
    return corrected ? 1.0 - w.share(height, width) : lambda;
  }

  /// Own draws for each image, or for each pair (i, B-1-i).
  void mix_each(at::Tensor& out, const at::Tensor& others, std::vector<double>& lambdas,
                core::Random& random) const {
    const std::int64_t size = out.size(0);
    const std::int64_t draws = p_.mode == Mode::kPair ? (size + 1) / 2 : size;
    for (std::int64_t i = 0; i < draws; ++i) {
      at::Tensor image = out[i];
      core::Random twin = random;  // the partner takes the same draws
      lambdas[static_cast<std::size_t>(i)] = mix(image, others[i], random);
      const std::int64_t j = size - 1 - i;
      if (p_.mode == Mode::kPair && j != i) {
        at::Tensor partner = out[j];
        lambdas[static_cast<std::size_t>(j)] = mix(partner, others[j], twin);
      }
    }
  }

  /// Lambda, and whether to cut. Lambda 1: nothing is mixed.
  std::pair<double, bool> draw(core::Random& random) const {
    if (!random.chance(p_.prob)) return {1.0, false};
    const bool both = p_.mixup_alpha > 0.0 && p_.cutmix_alpha > 0.0;
    const bool cut = both ? random.chance(p_.switch_prob) : p_.cutmix_alpha > 0.0;
    const double alpha = cut ? p_.cutmix_alpha : p_.mixup_alpha;
    return {random.beta(alpha, alpha), cut};
  }

  Window window(double lambda, std::int64_t height, std::int64_t width,
                core::Random& random) const {
    if (!p_.cutmix_minmax.empty()) {
      const auto side = [&](std::int64_t full) {
        const auto low = static_cast<std::int64_t>(static_cast<double>(full) * p_.cutmix_minmax[0]);
        const auto high =
            static_cast<std::int64_t>(static_cast<double>(full) * p_.cutmix_minmax[1]);
        return low + (high > low ? random.below(high - low) : 0);
      };
      const std::int64_t h = side(height), w = side(width);
      const std::int64_t top = random.below(height - h), left = random.below(width - w);
      return {top, top + h, left, left + w};
    }
    const double ratio = std::sqrt(1.0 - lambda);
    const auto h = static_cast<std::int64_t>(static_cast<double>(height) * ratio);
    const auto w = static_cast<std::int64_t>(static_cast<double>(width) * ratio);
    const std::int64_t y = random.below(height), x = random.below(width);
    return {std::clamp<std::int64_t>(y - h / 2, 0, height),
            std::clamp<std::int64_t>(y + h / 2, 0, height),
            std::clamp<std::int64_t>(x - w / 2, 0, width),
            std::clamp<std::int64_t>(x + w / 2, 0, width)};
  }

  at::Tensor soft_labels(const at::Tensor& labels, const std::vector<double>& lambdas,
                         const at::TensorOptions& options) const {
    const double off = p_.label_smoothing / static_cast<double>(p_.num_classes);
    const auto hot = [&](const at::Tensor& ids) {
      return at::full({ids.size(0), p_.num_classes}, off, options.dtype(at::kFloat))
          .scatter_(1, ids.to(at::kLong).unsqueeze(1), 1.0 - p_.label_smoothing + off);
    };
    const at::Tensor lambda =
        at::tensor(lambdas, at::kDouble).to(options.device(), at::kFloat).unsqueeze(1);
    return hot(labels) * lambda + hot(labels.flip(0)) * (1.0 - lambda);
  }

  Params p_;
};

}  // namespace

BatchTransform::Registry& BatchTransform::registry() {
  static Registry registry("collate function");
  return registry;
}

SGTRAIN_REGISTER(BatchTransform, CollateMixup, "CollateMixup");
}  // namespace sgtrain::loader
