#include "train/run_clock.h"

#include <fmt/format.h>

#include <algorithm>

namespace sgtrain::train {

void RunClock::epoch_ends() {
  epoch_end_ = besides_validation();
}

void RunClock::epoch_begins() {
  if (epoch_end_) longest_gap_ = std::max(longest_gap_, besides_validation() - *epoch_end_);
  epoch_end_.reset();
}

std::string RunClock::text() const {
  const double all = std::max(total(), 1e-9);
  const auto percent = [&](double s) { return 100.0 * s / all; };
  double known = 0.0;
  for (const double s : seconds_) known += s;
  return fmt::format(
      "training took {:.1f} s: {:.0f} % steps, {:.0f} % waiting for data, {:.0f} % validation, "
      "{:.0f} % checkpoints, {:.0f} % else; {:.0f} % was not training; at most {:.2f} s between "
      "epochs besides validation",
      all, percent(seconds(Work::kStep)), percent(seconds(Work::kData)),
      percent(seconds(Work::kValidation)), percent(seconds(Work::kCheckpoint)),
      percent(std::max(0.0, all - known)), percent(all - seconds(Work::kStep)), longest_gap_);
}

}  // namespace sgtrain::train
