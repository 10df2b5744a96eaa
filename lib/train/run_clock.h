// Where the time of a run goes.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>

namespace sgtrain::train {

enum class Work { kStep, kData, kValidation, kCheckpoint };

/// Seconds by kind of work since the run (or the resume) began.
class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  void add(Work work, Clock::duration time) {
    seconds_[static_cast<std::size_t>(work)] += std::chrono::duration<double>(time).count();
  }
  double seconds(Work work) const { return seconds_[static_cast<std::size_t>(work)]; }
  double total() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// After the last step of an epoch, and before the first step of the next.
  void epoch_ends();
  void epoch_begins();
  /// "training took 93.1 s: 88 % steps, 5 % waiting for data, 6 % validation, 0 % checkpoints, 1 %
  /// else; 12 % was not training; at most 0.02 s between epochs besides validation"
  std::string text() const;

 private:
  double besides_validation() const { return total() - seconds(Work::kValidation); }

  Clock::time_point start_ = Clock::now();
  std::array<double, 4> seconds_{};
  std::optional<double> epoch_end_;  // in time besides validation
  double longest_gap_ = 0.0;
};

/// Adds its own lifetime.
class Timed {
 public:
  Timed(RunClock& clock, Work work) : clock_(clock), work_(work) {}
  ~Timed() { clock_.add(work_, RunClock::Clock::now() - start_); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  RunClock& clock_;
  Work work_;
  RunClock::Clock::time_point start_ = RunClock::Clock::now();
};

}  // namespace sgtrain::train
