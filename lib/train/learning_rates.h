// Sets what warm-up and schedule say, at the moments that optim/schedule.h names.
#pragma once

#include <vector>

#include "optim/schedule.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

class LearningRates {
 public:
  /// Of the run's optimizer, which both must outlive.
  LearningRates(Run& run, const TrainState& state);

  /// The run is here now: schedules that count do, then set().
  void step(optim::Position position);
  /// Rates and momentum of a position, without counting it.
  void set(const optim::Position& position);

 private:
  Run& run_;
  const TrainState& state_;
  std::vector<optim::LrSchedule*> parts_;  // the warm-up before the schedule
};

}  // namespace sgtrain::train
