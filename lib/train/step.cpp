#include "train/step.h"

#include <cmath>

#include "loader/normalise.h"
#include "tensor/device.h"

namespace sgtrain::train {
at::Tensor to_network_input(const at::Tensor& images, const InputFormat& format) {
  const at::Tensor x = images.to(format.device, images.scalar_type(), /*non_blocking=*/true);
  return loader::normalise(x, format.normalisation).to(format.dtype);
}

tensor::ModelOutput to_float(const tensor::ModelOutput& output) {
  tensor::ModelOutput converted;
  for (const auto& [name, value] : output.items()) {
    const bool reduced = value.scalar_type() == at::kBFloat16 || value.scalar_type() == at::kHalf;
    converted.set(name, reduced ? value.to(at::kFloat) : value);
  }
  return converted;
}

GlobalLoss globalise(const losses::LossResult& loss, std::int64_t images,
                     dist::Communicator& comm) {
  const auto count = static_cast<std::int64_t>(loss.terms.size());
  std::vector<at::Tensor> numbers;
  for (const auto& term : loss.terms)
    numbers.push_back(term.sum.detach().to(at::kDouble).reshape({}));
  for (const auto& term : loss.terms)
    numbers.push_back(term.normaliser.detach().to(at::kDouble).reshape({}));
  numbers.push_back(at::full({}, static_cast<double>(images), numbers.front().options()));
  at::Tensor packed = at::stack(numbers);
  comm.all_reduce(packed);
  const at::Tensor host = packed.cpu();
  const auto* values = host.data_ptr<double>();

  GlobalLoss result{.components = {}, .images = values[2 * count], .total = {}};
  double total = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& term = loss.terms[static_cast<std::size_t>(i)];
    const double normaliser = std::max(values[count + i], term.floor);
    const double value = term.weight * values[i] / normaliser;
    result.components.push_back(term.logged_weight.value_or(term.weight) * values[i] / normaliser);
    total += value;
    // Reducers average over ranks; the sum over ranks is wanted, hence the factor.
    const at::Tensor share = term.sum * (term.weight * comm.world_size() / normaliser);
    result.total = result.total.defined() ? result.total + share : share;
  }
  if (count > 1) result.components.push_back(total);
  result.finite = std::isfinite(total);
  return result;
}

StepOutput TrainStep::run(const tensor::Batch& batch, bool last, double share,
                          const std::vector<std::unique_ptr<loader::BatchTransform>>& mixing,
                          core::Random random, const StepHooks& hooks) {
  StepOutput step;
  step.targets = batch.targets.to(options_.input.device);
  at::Tensor images = to_network_input(batch.images, options_.input);
  for (const auto& transform : mixing) transform->apply(images, step.targets, random);
  if (hooks.before_forward) hooks.before_forward(images, step.targets);
  step.height = images.size(2);
  step.width = images.size(3);
  reducer_.before_forward(last);
  tensor::ModelOutput output;
  {
    const tensor::AutocastGuard autocast(options_.input.device, options_.precision);
    output = model_.run(images);
  }
  output = to_float(output);
  step.loss = globalise(loss_(output, step.targets), batch.size(), comm_);
  for (const auto& [name, value] : output.items()) step.output.set(name, value.detach());
  if (hooks.loss_end) hooks.loss_end(step);
  if (step.loss.finite) {
    at::Tensor total = share == 1.0 ? step.loss.total : step.loss.total * share;
    if (options_.scaler != nullptr) total = options_.scaler->scale(total);
    reducer_.backward(total);
    if (hooks.backward_end) hooks.backward_end(step);
  }
  step.loss.total.reset();  // frees the graph
  return step;
}

}  // namespace sgtrain::train
