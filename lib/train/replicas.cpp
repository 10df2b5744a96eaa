#include "train/replicas.h"

#include <fmt/format.h>

#include <algorithm>

#include "dist/sync.h"

namespace sgtrain::train {

std::vector<std::pair<std::string, at::Tensor>> learned_state(Run& run) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const tensor::TensorRef& ref : run.model->state()) {
    if (ref.is_parameter || run.params.sync_bn) out.emplace_back(ref.name, *ref.tensor);
  }
  for (const auto& [index, slots] : run.optimizer->state_dict().state) {
    for (const auto& [name, value] : slots) {
      if (value.is_tensor())
        out.emplace_back(fmt::format("optimizer {} {}", index, name), value.as_tensor());
    }
  }
  if (!run.ema) return out;
  for (const auto& [name, value] : run.ema->state_dict()) {
    const bool statistic = name.find("running_") != std::string::npos;
    if (!statistic || run.params.sync_bn) out.emplace_back("ema " + name, value);
  }
  return out;
}

std::vector<tensor::TensorRef> reduced_parameters(models::Model& model) {
  const auto unused = model.unused_parameters();
  auto refs = model.named_parameters();
  std::erase_if(refs, [&](const tensor::TensorRef& ref) {
    return !ref.tensor->requires_grad() ||
           std::any_of(unused.begin(), unused.end(),
                       [&](const std::string& prefix) { return ref.name.starts_with(prefix); });
  });
  return refs;
}

void average_gradients(Run& run) {
  const at::NoGradGuard no_grad;
  for (at::Tensor gradient : run.optimizer->gradients()) {
    run.comm->all_reduce(gradient);
    gradient.div_(run.comm->world_size());
  }
}

void share_buffers(Run& run) {
  if (run.comm->world_size() == 1) return;
  const auto share = [&run] {
    auto buffers = run.model->state();
    std::erase_if(buffers, [](const tensor::TensorRef& ref) { return ref.is_parameter; });
    dist::broadcast_state(*run.comm, buffers);
  };
  share();
  if (!run.ema) return;
  const optim::EmaScope average(run.ema.get(), *run.model);
  share();
}

}  // namespace sgtrain::train
