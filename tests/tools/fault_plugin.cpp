// A plug-in for script tests: makes one rank of a run fail, stall or stray on purpose.
//   sgtrain … --plugin fault_plugin.so 'training_hyperparams.phase_callbacks=[{Fault: {what:
//   throw}}]'
// A file `fault` in the working folder says that it has happened.
#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <thread>

#include "core/signals.h"
#include "dist/launcher.h"
#include "models/model.h"
#include "train/callback.h"

namespace sgtrain::train {
namespace {

class Fault final : public Callback {
 public:
  struct Params {
    /// throw: an exception; memory: an allocation that must fail; crash: a wild pointer;
    /// stall: does not go on, nor look at signals; stray: a weight of its own; nan: an image
    /// without numbers; slow: validation batches that take `seconds`; stop: SIGTERM to the run.
    std::string what;
    int rank = 1;
    int step = 5;          // 0-based in the run
    double seconds = 0.0;  // of each validation batch
    static Params from(core::Node& n) {
      return {.what = n.get<std::string>("what").one_of(
                  {"throw", "memory", "crash", "stall", "stray", "nan", "slow", "stop"}),
              .rank = n.get_or("rank", 1),
              .step = n.get_or("step", 5),
              .seconds = n.get_or("seconds", 0.0)};
    }
  };
  explicit Fault(Params params) : p_(std::move(params)) {}

  void before_forward(at::Tensor& images, tensor::Targets&, PhaseContext& c) override {
    if (!due(c, "nan")) return;
    images.fill_(std::numeric_limits<double>::quiet_NaN());
  }

  Requests on_train_batch_start(PhaseContext& c) override {
    if (due(c, "throw")) throw std::runtime_error("an injected exception");
    if (due(c, "memory")) at::empty({std::int64_t{1} << 60}, at::kByte);
    if (due(c, "crash")) raise(SIGSEGV);
    if (due(c, "stall")) {
      for (;;) pause();
    }
    if (due(c, "stray")) {
      const at::NoGradGuard no_grad;
      c.model.parameters().front().add_(1.0);
    }
    return {};
  }

  Requests on_train_batch_end(PhaseContext& c) override {
    if (due(c, "stop")) {
      const auto& world = dist::World::current();
      kill(world.launched_by == "sgtrain" ? getppid() : getpid(), SIGTERM);
      while (!core::signals::stop_requested()) std::this_thread::yield();
    }
    return {};
  }

  Requests on_validation_batch_end(PhaseContext&) override {
    if (p_.what != "slow" || dist::World::current().rank != p_.rank) return {};
    std::ofstream("fault") << "slow\n";
    std::this_thread::sleep_for(std::chrono::duration<double>(p_.seconds));
    return {};
  }

 private:
  bool due(const PhaseContext& c, const char* what) const {
    const bool now =
        p_.what == what && c.state.global_step == p_.step && dist::World::current().rank == p_.rank;
    if (now) std::ofstream("fault") << what << "\n";
    return now;
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, Fault, "Fault");
}  // namespace sgtrain::train
