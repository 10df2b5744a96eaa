#include "losses/dense_classification.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <mutex>

namespace sgtrain::losses {
namespace {

/// log(1 + e^x), exact to rounding for all x.
at::Tensor log1p_exp(const at::Tensor& x) {
  return at::softplus(x, /*beta=*/1, /*threshold=*/40);
}

double background_weight(DenseClassification kind) {
  return kind == DenseClassification::kFocalNoAlpha ? 1.0 : 0.75;
}

/// weight · Σ p²·softplus(x) over one block, as a scalar tensor; writes the gradient unless
/// undefined.
at::Tensor background_block(const at::Tensor& x, double weight, at::Tensor gradient) {
  const at::Tensor p = x.sigmoid(), nll = log1p_exp(x), square = p * p;
  if (gradient.defined()) {
    // d/dx p²·s = p²·(2·(1 - p)·s + p)
    at::Tensor slope = at::rsub(p, 1).mul_(nll).mul_(2).add_(p);
    at::mul_out(gradient, slope.mul_(weight), square);
  }
  return at::dot(square, nll) * weight;
}

/// The sum over all logits as if none were positive.
at::Tensor background_sum(const at::Tensor& x, double weight, const at::Tensor& gradient) {
  const auto slice = [](const at::Tensor& t, std::int64_t begin, std::int64_t end) {
    return t.defined() ? t.narrow(0, begin, end - begin) : t;
  };
  if (!x.is_cpu()) return background_block(x, weight, gradient);
  constexpr std::int64_t kBlock = 1 << 15;  // its temporaries stay in the cache
  const std::int64_t blocks = (x.numel() + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks), 0.0);
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad;  // the mode belongs to the thread
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = i * kBlock, to = std::min(x.numel(), from + kBlock);
      sums[static_cast<std::size_t>(i)] =
          background_block(slice(x, from, to), weight, slice(gradient, from, to)).item<double>();
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return at::full({}, total, x.options());
}

struct PositiveTerms {
  at::Tensor loss, gradient;  // [P]
};

PositiveTerms positive_terms(const at::Tensor& x, const at::Tensor& q, DenseClassification kind) {
  const at::Tensor p = x.sigmoid(), bce = log1p_exp(x) - q * x, slope = p - q;
  if (kind == DenseClassification::kVarifocal) return {q * bce, q * slope};
  const at::Tensor alpha =
      kind == DenseClassification::kFocal ? 0.25 * q + 0.75 * (1 - q) : at::ones_like(q);
  const at::Tensor weight = slope * slope * alpha;
  return {weight * bce, 2 * slope * p * (1 - p) * alpha * bce + weight * slope};
}

class DenseClassificationSum : public torch::autograd::Function<DenseClassificationSum> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& positions, const at::Tensor& quality,
                            std::int64_t kind_number) {
    const auto kind = static_cast<DenseClassification>(kind_number);
    const at::Tensor x = logits.detach().contiguous().view({-1});
    const at::Tensor gradient = logits.requires_grad() ? at::empty_like(x) : at::Tensor();
    const double weight = background_weight(kind);
    at::Tensor sum = background_sum(x, weight, gradient);
    const at::Tensor positive = x.index_select(0, positions);
    const PositiveTerms terms = positive_terms(positive, quality, kind);
    sum += terms.loss.sum() - background_block(positive, weight, {});
    if (gradient.defined()) {
      gradient.index_copy_(0, positions, terms.gradient);
      context->save_for_backward({gradient.view(logits.sizes())});
    }
    return sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {context->get_saved_variables()[0] * gradients[0], at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor dense_classification_sum(const at::Tensor& logits, const at::Tensor& positions,
                                    const at::Tensor& quality, DenseClassification kind) {
  return DenseClassificationSum::apply(logits, positions, quality, static_cast<std::int64_t>(kind));
}

}  // namespace sgtrain::losses
