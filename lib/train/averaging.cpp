#include "train/averaging.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"

namespace sgtrain::train {

SlotChange offer_epoch(std::vector<ScoredEpoch>& slots, const ScoredEpoch& candidate, bool greater,
                       std::size_t most) {
  if (most == 0 || !std::isfinite(candidate.value)) return {};
  if (slots.size() < most) {
    slots.push_back(candidate);
    return {.added = true, .dropped = {}};
  }
  const auto worst = std::min_element(slots.begin(), slots.end(),
                                      [greater](const ScoredEpoch& a, const ScoredEpoch& b) {
                                        return greater ? a.value < b.value : a.value > b.value;
                                      });
  const bool better = greater ? candidate.value > worst->value : candidate.value < worst->value;
  if (!better) return {};
  const int dropped = worst->epoch;
  *worst = candidate;
  return {.added = true, .dropped = dropped};
}

tensor::StateDict average_weights(const std::vector<std::filesystem::path>& files) {
  const at::NoGradGuard no_grad;
  tensor::StateDict mean;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const tensor::Value content = tensor::read_pth(files[i]);
    const auto state = tensor::to_state_dict(content["net"], files[i].string());
    if (i > 0 && state.size() != mean.size()) {
      throw core::Error("its weights are those of another model", files[i].string());
    }
    for (std::size_t k = 0; k < state.size(); ++k) {
      const auto& [name, value] = state[k];
      if (i == 0) {
        mean.emplace_back(name, value.clone());
      } else if (!value.is_floating_point()) {
        mean[k].second = value.clone();
      } else {
        // The reference's moving average.
        mean[k].second.mul_(static_cast<double>(i)).add_(value).div_(static_cast<double>(i) + 1.0);
      }
    }
  }
  return mean;
}

}  // namespace sgtrain::train
