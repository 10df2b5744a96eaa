#include "nn/sync_batch_norm.h"

#include <cstdint>
#include <tuple>

namespace sgtrain::nn {
namespace {

/// (x - mean) / sqrt(var + eps) * weight + bias, per channel, in one pass and x's type and layout.
at::Tensor normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& mean, const at::Tensor& var, double eps) {
  return std::get<0>(
      at::native_batch_norm(x, weight, bias, mean, var, /*training=*/false, 0.0, eps));
}

struct Statistics {
  at::Tensor mean, var;  // [C], in the type of the running statistics; the variance is biased
  at::Tensor count;      // values per channel over all ranks, double []
};

Statistics global_statistics(const at::Tensor& x, const BatchNorm2d& bn, dist::Communicator& comm) {
  // Handing over running statistics (copies: they are changed) keeps the sums of 16-bit inputs in
  // float.
  const auto [mean, var] =
      at::batch_norm_update_stats(x, bn.running_mean.clone(), bn.running_var.clone(), bn.momentum);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  const at::Tensor m = mean.to(at::kDouble), v = var.to(at::kDouble);
  at::Tensor sums = at::cat({m * count, (v + m * m) * count, at::full({1}, count, m.options())});
  comm.all_reduce(sums);
  const std::int64_t channels = x.size(1);
  const at::Tensor total = sums[2 * channels];
  const at::Tensor global_mean = sums.narrow(0, 0, channels) / total;
  const at::Tensor square = sums.narrow(0, channels, channels) / total;
  const auto type = bn.running_mean.scalar_type();
  return {.mean = global_mean.to(type),
          .var = (square - global_mean * global_mean).clamp_min_(0.0).to(type),
          .count = total};
}

class SyncNorm : public torch::autograd::Function<SyncNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& var, const at::Tensor& count,
                            double eps, std::int64_t comm_address) {
    context->save_for_backward({x, weight, mean, var, count});
    context->saved_data["eps"] = eps;
    // An integer, because saved_data holds plain values only.
    context->saved_data["comm"] = comm_address;
    return normalise(x, weight, bias, mean, var, eps);
  }

  // With g = dy, n values per channel over all ranks and x^ the normalised input:
  //   dx = weight / sigma * (g - sum(g) / n - x^ * sum(g x^) / n), sums over all ranks.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    auto& comm = *reinterpret_cast<dist::Communicator*>(context->saved_data["comm"].toInt());
    const at::Tensor g = gradients[0].contiguous(x.suggest_memory_format());
    const auto [none, weight_gradient, bias_gradient] = at::native_batch_norm_backward(
        g, x, weight, mean, var, {}, {}, /*train=*/false, eps, {false, true, true});

    at::Tensor sums = at::cat({bias_gradient, weight_gradient}).to(at::kDouble);
    comm.all_reduce(sums);
    sums.div_(saved[4]);
    const std::int64_t channels = x.size(1);
    const at::Tensor scale = weight.to(at::kDouble) / at::sqrt(var.to(at::kDouble) + eps);
    const auto part = [&](const at::Tensor& t) { return t.to(mean.scalar_type()); };
    const at::Tensor zero = at::zeros_like(mean), one = at::ones_like(mean);
    at::Tensor dx = normalise(x, part(-scale * sums.narrow(0, channels, channels)),
                              part(-scale * sums.narrow(0, 0, channels)), mean, var, eps);
    dx.add_(normalise(g, part(scale), zero, zero, one, 0.0));
    const at::Tensor nothing;
    return {dx, weight_gradient, bias_gradient, nothing, nothing, nothing, nothing, nothing};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, BatchNorm2d& bn, dist::Communicator& comm) {
  Statistics s;
  {
    const at::NoGradGuard no_grad;
    bn.num_batches_tracked.add_(1);
    s = global_statistics(x.detach(), bn, comm);
    bn.running_mean.lerp_(s.mean, bn.momentum);
    bn.running_var.lerp_((s.var * (s.count / (s.count - 1))).to(s.var.scalar_type()), bn.momentum);
  }
  return SyncNorm::apply(x, bn.weight, bn.bias, s.mean, s.var, s.count, bn.eps,
                         reinterpret_cast<std::int64_t>(&comm));
}

void synchronise_batch_norm(tensor::Module& module, dist::Communicator& comm) {
  if (comm.world_size() == 1) return;
  module.apply([&](const std::string&, tensor::Module& part) {
    if (auto* norm = dynamic_cast<BatchNorm2d*>(&part)) norm->sync = &comm;
  });
}

}  // namespace sgtrain::nn
