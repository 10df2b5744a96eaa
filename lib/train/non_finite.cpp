#include "train/non_finite.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text.h"

namespace sgtrain::train {

std::string describe_loss(const Run& run, const StepOutput& output) {
  std::string loss = "the loss is not finite";
  const auto names = run.loss->component_names();
  for (std::size_t i = 0; i < output.loss.components.size() && i < names.size(); ++i) {
    if (std::isfinite(output.loss.components[i])) continue;
    loss = fmt::format("{} is {}", names[i], output.loss.components[i]);
    break;
  }
  std::string tensor = "none of the model's outputs";
  for (const auto& [name, value] : output.output.items()) {
    if (!value.is_floating_point() || at::isfinite(value).all().item<bool>()) continue;
    tensor = "output '" + name + "'";
    break;
  }
  return loss + "; first tensor with non-finite values: " + tensor;
}

std::string describe_gradients(const Run& run) {
  for (const auto& group : run.optimizer->groups()) {
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      const at::Tensor gradient = group.params[i].grad();
      if (gradient.defined() && !at::isfinite(gradient).all().item<bool>())
        return "the loss is finite, but the gradient of '" + group.param_names.at(i) + "' is not";
    }
  }
  return "the norm of the gradients is not finite";
}

std::string describe_images(const Run& run, const tensor::Batch& batch) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> images;
  for (std::size_t i = 0; i < batch.indices.size() && i < kMost; ++i)
    images.push_back(run.train_set->image_path(batch.indices[i]));
  return core::join(images);
}

}  // namespace sgtrain::train
