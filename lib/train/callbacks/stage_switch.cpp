#include "core/log.h"
#include "losses/assigner.h"
#include "train/callback.h"

namespace sgtrain::train {
namespace {

/// PP-YOLOE's second stage: from epoch `static_assigner_end_epoch` on (0-based) targets are
/// assigned by task alignment instead of ATSS.
class PPYoloETrainingStageSwitchCallback final : public Callback {
 public:
  struct Params {
    int static_assigner_end_epoch = 30;
    static Params from(core::Node& n) {
      return {.static_assigner_end_epoch = n.get_or("static_assigner_end_epoch", 30).min(0)};
    }
  };
  explicit PPYoloETrainingStageSwitchCallback(const Params& params) : params_(params) {}

  // Every epoch start, not once: a resumed run begins in the stage it was in.
  Requests on_train_loader_start(PhaseContext& context) override {
    auto* loss = dynamic_cast<losses::StaticAssignerSwitch*>(&context.loss);
    if (loss == nullptr)
      return {.stop_training =
                  "PPYoloETrainingStageSwitchCallback: the loss has no static assigner"};
    const bool is_static = context.state.epoch < params_.static_assigner_end_epoch;
    if (loss->uses_static_assigner() != is_static && !is_static)
      core::log::info("from now on: task-aligned assignment");
    loss->use_static_assigner(is_static);
    return {};
  }

 private:
  Params params_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, PPYoloETrainingStageSwitchCallback,
                 "PPYoloETrainingStageSwitchCallback");
}  // namespace sgtrain::train
