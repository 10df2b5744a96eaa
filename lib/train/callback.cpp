#include "train/callback.h"

#include <array>

namespace sgtrain::train {
namespace {

constexpr std::array<const char*, 13> kPhaseNames{"PRE_TRAINING",
                                                  "TRAIN_EPOCH_START",
                                                  "TRAIN_BATCH_END",
                                                  "TRAIN_BATCH_STEP",
                                                  "TRAIN_EPOCH_END",
                                                  "VALIDATION_BATCH_END",
                                                  "VALIDATION_EPOCH_END",
                                                  "VALIDATION_END_BEST_EPOCH",
                                                  "TEST_BATCH_END",
                                                  "TEST_END",
                                                  "AVERAGE_BEST_MODELS_VALIDATION_START",
                                                  "AVERAGE_BEST_MODELS_VALIDATION_END",
                                                  "POST_TRAINING"};

}  // namespace

Callback::Registry& Callback::registry() {
  static Registry registry("callback");
  return registry;
}

std::optional<double> PhaseContext::metric(std::string_view name) const {
  return value_of(metrics, name);
}

const char* phase_name(Phase phase) {
  return kPhaseNames.at(static_cast<std::size_t>(phase));
}

Phase read_phase(core::Node& node, std::optional<Phase> fallback) {
  const std::vector<std::string> names(kPhaseNames.begin(), kPhaseNames.end());
  std::string name = fallback ? node.get_or("phase", phase_name(*fallback)).one_of(names).value()
                              : node.get<std::string>("phase").one_of(names).value();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Phase>(i);
  }
  return fallback.value_or(Phase::kTrainEpochEnd);  // reported
}

}  // namespace sgtrain::train
