#include "train/learning_rates.h"

#include "train/phases.h"

namespace sgtrain::train {

LearningRates::LearningRates(Run& run, const TrainState& state) : run_(run), state_(state) {
  if (run.warmup) parts_.push_back(run.warmup.get());
  if (run.schedule) parts_.push_back(run.schedule.get());
}

void LearningRates::step(optim::Position position) {
  const bool watches = run_.schedule && !run_.schedule->watches().empty();
  const NamedValues values = watches ? metric_values(state_) : NamedValues{};
  position.values = &values;
  for (optim::LrSchedule* part : parts_) part->step(position);
  set(position);
}

void LearningRates::set(const optim::Position& position) {
  for (optim::LrSchedule* part : parts_) {
    for (optim::ParamGroup& group : run_.optimizer->groups()) {
      if (const auto lr = part->at(position, group)) group.lr = *lr;
    }
    if (const auto momentum = part->momentum()) run_.optimizer->set_momentum(*momentum);
  }
}

}  // namespace sgtrain::train
