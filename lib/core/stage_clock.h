// Where the time of loading goes. Code deep inside (file reading, decoding) marks its stage with a
// `StageTimer`; whoever drives the thread reads and clears the sums. One thread-local add per
// stage: no lock, no allocation.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sgtrain::core {

enum class Stage : std::uint8_t { kRead, kDecode, kAugment, kCollate, kCount };

/// Nanoseconds per stage.
using StageTimes = std::array<std::int64_t, static_cast<std::size_t>(Stage::kCount)>;

/// Sums of the calling thread since it last cleared them.
inline StageTimes& stage_times() {
  thread_local StageTimes times{};
  return times;
}

/// Adds its own life time to a stage of this thread, minus what timers inside it took: a decode
/// inside an augmentation counts as decode only.
class StageTimer {
 public:
  explicit StageTimer(Stage stage) : stage_(stage), inner_before_(total()) {}
  ~StageTimer() {
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
    const std::int64_t inner = total() - inner_before_;
    stage_times()[static_cast<std::size_t>(stage_)] += spent.count() - inner;
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static std::int64_t total() {
    std::int64_t sum = 0;
    for (const std::int64_t time : stage_times()) sum += time;
    return sum;
  }
  Stage stage_;
  std::int64_t inner_before_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace sgtrain::core
