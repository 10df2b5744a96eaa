#include "train/precise_bn.h"

#include <algorithm>

#include "nn/layers.h"
#include "tensor/device.h"

namespace sgtrain::train {
namespace {

/// A layer, its own momentum, and the sums of its statistics over batches.
struct Layer {
  nn::BatchNorm2d* norm;
  double momentum;
  at::Tensor means, variances;
};

std::vector<Layer> layers_of(models::Model& model) {
  std::vector<Layer> out;
  model.trained().apply([&](const std::string&, tensor::Module& module) {
    auto* norm = dynamic_cast<nn::BatchNorm2d*>(&module);
    if (norm == nullptr) return;
    out.push_back({norm, norm->momentum, at::zeros_like(norm->running_mean),
                   at::zeros_like(norm->running_var)});
    norm->momentum = 1.0;  // running statistics are those of the last batch
  });
  return out;
}

}  // namespace

int precise_bn_batches(const Run& run) {
  const std::int64_t world = run.comm->world_size();
  std::int64_t batches = world;
  if (run.params.precise_bn_batch_size)
    batches = *run.params.precise_bn_batch_size / (run.train_loader->params().batch_size * world);
  return static_cast<int>(std::clamp<std::int64_t>(batches, 1, run.train_loader->batches()));
}

void update_batch_norm(Run& run, int epoch, int batches) {
  const at::NoGradGuard no_grad;
  auto layers = layers_of(*run.model);
  if (layers.empty()) return;
  run.model->train();
  run.train_loader->begin(epoch);
  int seen = 0;
  for (; seen < batches; ++seen) {
    const auto batch = run.train_loader->next();
    if (!batch) break;
    const tensor::AutocastGuard autocast(run.input.device, run.precision);
    run.model->run(to_network_input(batch->images, run.input));
    for (Layer& layer : layers) {
      layer.means += layer.norm->running_mean;
      layer.variances += layer.norm->running_var;
    }
  }
  for (Layer& layer : layers) {
    run.comm->all_reduce(layer.means);
    run.comm->all_reduce(layer.variances);
    const double count = static_cast<double>(seen) * run.comm->world_size();
    layer.norm->running_mean.copy_(layer.means / count);
    layer.norm->running_var.copy_(layer.variances / count);
    layer.norm->momentum = layer.momentum;
  }
}

}  // namespace sgtrain::train
