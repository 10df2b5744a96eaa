#include "tensor/batch.h"

#include "core/error.h"

namespace sgtrain::tensor {

Targets Targets::to(at::Device device) const {
  const auto move = [&](const at::Tensor& t) {
    return t.defined() ? t.to(device, t.scalar_type(), /*non_blocking=*/true) : t;
  };
  return {move(labels), move(boxes), move(crowd_boxes), move(masks)};
}

bool ModelOutput::has(std::string_view name) const {
  for (const auto& [own, tensor] : items_) {
    if (own == name) return true;
  }
  return false;
}

const at::Tensor& ModelOutput::operator[](std::string_view name) const {
  std::string known;
  for (const auto& [own, tensor] : items_) {
    if (own == name) return tensor;
    known += (known.empty() ? "" : ", ") + own;
  }
  throw core::Error("the model has no output '" + std::string(name) + "' (it has: " + known + ")",
                    {}, "choose a loss and metrics of the model's task");
}

}  // namespace sgtrain::tensor
