#include "train/callback.h"

namespace sgtrain::train {

Callback::Registry& Callback::registry() {
  static Registry registry("callback");
  return registry;
}

std::optional<double> PhaseContext::metric(std::string_view name) const {
  for (const auto& [own, value] : metrics) {
    if (own == name) return value;
  }
  return std::nullopt;
}

}  // namespace sgtrain::train
