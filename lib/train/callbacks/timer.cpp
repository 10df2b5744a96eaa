#include <chrono>

#include "train/callback.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Logs how long things take: "timer/train_batch_ms" and "timer/val_batch_ms" per batch (at the
/// run's step), "timer/train_loader_sec", "timer/val_loader_sec" and "timer/epoch_sec" per epoch.
class TimerCallback final : public Callback {
 public:
  Requests on_train_loader_start(PhaseContext&) override {
    epoch_ = loader_ = Clock::now();
    return {};
  }
  Requests on_train_batch_start(PhaseContext&) override {
    batch_ = Clock::now();
    return {};
  }
  Requests on_train_batch_end(PhaseContext& c) override {
    return log(c, "timer/train_batch_ms", 1e3 * since(batch_), c.state.global_step);
  }
  Requests on_train_loader_end(PhaseContext& c) override {
    log(c, "timer/epoch_sec", since(epoch_), c.state.epoch);
    return log(c, "timer/train_loader_sec", since(loader_), c.state.epoch);
  }
  Requests on_validation_loader_start(PhaseContext&) override {
    loader_ = Clock::now();
    return {};
  }
  Requests on_validation_batch_start(PhaseContext&) override {
    batch_ = Clock::now();
    return {};
  }
  Requests on_validation_batch_end(PhaseContext& c) override {
    return log(c, "timer/val_batch_ms", 1e3 * since(batch_), c.state.global_step + c.batch_index);
  }
  Requests on_validation_loader_end(PhaseContext& c) override {
    return log(c, "timer/val_loader_sec", since(loader_), c.state.epoch);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  static Requests log(const PhaseContext& c, const char* tag, double value, std::int64_t step) {
    if (c.is_main && c.run != nullptr) c.run->logger->add_scalar(tag, value, step);
    return {};
  }
  Clock::time_point epoch_, loader_, batch_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, TimerCallback, "TimerCallback", "EpochTimer");
}  // namespace sgtrain::train
