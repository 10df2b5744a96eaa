#include <algorithm>
#include <opencv2/core.hpp>

#include "train/callback.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Sends the first `num_images` images of every `freq`-th batch to the logger, as the network gets
/// them: "train_images/0" … at the run's step.
class ImageLoggingCallback final : public PhaseCallback {
 public:
  struct Params {
    Phase phase = Phase::kTrainBatchEnd;
    int num_images = 3;  // of a batch
    int freq = 1;        // batches
    std::string tag = "train_images";
    static Params from(core::Node& n) {
      Params p;
      p.phase = read_phase(n, p.phase);
      p.num_images = n.get_or("num_images|k", p.num_images).min(1).help("first images of a batch");
      p.freq = n.get_or("freq|n", p.freq).min(1).help("every n-th batch");
      p.tag = n.get_or("tag", p.tag.c_str()).value();
      if (p.phase != Phase::kTrainBatchEnd && p.phase != Phase::kValidationBatchEnd &&
          p.phase != Phase::kTestBatchEnd) {
        n.problem("phase",
                  "needs the end of a batch: TRAIN_BATCH_END, VALIDATION_BATCH_END or "
                  "TEST_BATCH_END");
      }
      return p;
    }
  };
  explicit ImageLoggingCallback(Params params)
      : PhaseCallback(params.phase), p_(std::move(params)) {}

  Requests call(PhaseContext& context) override {
    if (!context.is_main || context.run == nullptr || context.batch == nullptr) return {};
    if (context.batch_index % p_.freq != 0) return {};
    const at::Tensor images = context.batch->images.contiguous();  // uint8 [B, H, W, C]
    const auto count = std::min<std::int64_t>(p_.num_images, images.size(0));
    for (std::int64_t i = 0; i < count; ++i) {
      const at::Tensor image = images[i];
      const int channels = static_cast<int>(image.size(2));
      const cv::Mat view(static_cast<int>(image.size(0)), static_cast<int>(image.size(1)),
                         CV_8UC(channels), image.data_ptr());
      // The batch's memory is used again; the logger works later.
      context.run->logger->add_image(p_.tag + "/" + std::to_string(i), view.clone(),
                                     context.state.global_step);
    }
    return {};
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, ImageLoggingCallback, "ImageLoggingCallback", "BatchImageLogger");
}  // namespace sgtrain::train
