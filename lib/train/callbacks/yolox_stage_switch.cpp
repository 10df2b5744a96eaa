#include "train/callback.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// YOLOX's last stage (Ge et al. 2021): from epoch `next_stage_start_epoch` on (0-based) no mosaic
/// and no mixup. `close_mosaic: n` of a recipe is this callback for the last n epochs. The stage's
/// L1 term belongs to YOLOX's own loss.
class YoloXTrainingStageSwitchCallback final : public Callback {
 public:
  struct Params {
    int next_stage_start_epoch = 285;
    static Params from(core::Node& n) {
      Params p;
      p.next_stage_start_epoch = n.get_or("next_stage_start_epoch", p.next_stage_start_epoch)
                                     .min(0)
                                     .help("first epoch without mosaic and mixup, 0-based");
      return p;
    }
  };
  explicit YoloXTrainingStageSwitchCallback(const Params& params) : p_(params) {}

  // Every epoch start, not once: a resumed run begins in the stage it was in. No loader thread
  // works at this moment.
  Requests on_train_loader_start(PhaseContext& context) override {
    if (context.state.epoch >= p_.next_stage_start_epoch)
      context.run->train_pipeline->close_mosaic();
    return {};
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, YoloXTrainingStageSwitchCallback, "YoloXTrainingStageSwitchCallback");
}  // namespace sgtrain::train
