#include "train/callback.h"
#include "train/detection_picture.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Sends pictures of one batch to the logger, every `freq` epochs: targets on the left, predictions
/// on the right.
class DetectionVisualizationCallback final : public PhaseCallback {
 public:
  struct Params {
    Phase phase = Phase::kValidationBatchEnd;
    int freq = 1;  // epochs
    postprocess::DetectionPostprocess::Registry::MakerType postprocess;
    std::vector<std::string> classes;  // empty: the run's
    int batch_idx = 0;
    int last_img_idx_in_batch = -1;  // -1: all
    static Params from(core::Node& n) {
      Params p;
      p.phase = read_phase(n, p.phase);
      if (p.phase != Phase::kValidationBatchEnd && p.phase != Phase::kTestBatchEnd &&
          p.phase != Phase::kTrainBatchEnd) {
        n.problem("phase", "needs the end of a batch, such as VALIDATION_BATCH_END");
      }
      p.freq = n.get_or("freq", p.freq).min(1).help("epochs");
      p.postprocess = postprocess::DetectionPostprocess::registry().parse(
          n.component("post_prediction_callback"));
      p.classes = n.get_or("classes", std::vector<std::string>{}).value();
      p.batch_idx = n.get_or("batch_idx", p.batch_idx).min(0);
      p.last_img_idx_in_batch = n.get_or("last_img_idx_in_batch", p.last_img_idx_in_batch).min(-1);
      return p;
    }
  };
  explicit DetectionVisualizationCallback(Params params)
      : PhaseCallback(params.phase), p_(std::move(params)), postprocess_(p_.postprocess()) {}

  Requests call(PhaseContext& c) override {
    if (!c.is_main || c.run == nullptr || c.batch == nullptr || c.output == nullptr) return {};
    if (c.state.epoch % p_.freq != 0 || c.batch_index != p_.batch_idx) return {};
    const at::NoGradGuard no_grad;
    const auto& names = p_.classes.empty() ? c.run->class_names : p_.classes;
    const auto pictures =
        draw_detections(c.batch->images, c.batch->targets, (*postprocess_)(*c.output), names, 0,
                        p_.last_img_idx_in_batch);
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      c.run->logger->add_image(
          "batch_" + std::to_string(p_.batch_idx) + "_images/" + std::to_string(i), pictures[i],
          c.state.epoch);
    }
    return {};
  }

 private:
  Params p_;
  std::unique_ptr<postprocess::DetectionPostprocess> postprocess_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, DetectionVisualizationCallback, "DetectionVisualizationCallback");
}  // namespace sgtrain::train
