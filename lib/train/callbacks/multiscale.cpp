#include <algorithm>

#include "core/random.h"
#include "models/model.h"
#include "train/callback.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Trains at changing sizes: every `change_frequency` batches a height of the batch's own plus or
/// minus up to `multiscale_range` steps of `image_size_steps` pixels, the width in proportion
/// (YOLOX's multiscale training, Ge et al. 2021). The size is a pure function of seed, epoch and
/// batch: the same on every rank and after a resume.
class DetectionMultiscalePrePredictionCallback final : public Callback {
 public:
  struct Params {
    int multiscale_range = 5;   // steps
    int image_size_steps = 32;  // pixels
    int change_frequency = 10;  // batches
    static Params from(core::Node& n) {
      Params p;
      p.multiscale_range = n.get_or("multiscale_range", p.multiscale_range).in(0, 1024);
      p.image_size_steps = n.get_or("image_size_steps", p.image_size_steps).in(1, 4096);
      p.change_frequency = n.get_or("change_frequency", p.change_frequency).min(1);
      return p;
    }
  };
  explicit DetectionMultiscalePrePredictionCallback(const Params& params) : p_(params) {}

  void before_forward(at::Tensor& images, tensor::Targets& targets, PhaseContext& c) override {
    const std::int64_t height = images.size(2), width = images.size(3);
    const auto [new_height, new_width] = size_for(height, width, c);
    if (new_height == height && new_width == width) return;
    const at::NoGradGuard no_grad;
    images = at::upsample_bilinear2d(images, {new_height, new_width}, /*align_corners=*/false)
                 .contiguous(at::MemoryFormat::ChannelsLast);
    const double x = static_cast<double>(new_width) / static_cast<double>(width);
    const double y = static_cast<double>(new_height) / static_cast<double>(height);
    for (at::Tensor* boxes : {&targets.boxes, &targets.crowd_boxes}) {
      if (!boxes->defined()) continue;
      const at::Tensor factors = at::tensor({1.0, 1.0, x, y, x, y}, boxes->options());
      *boxes = *boxes * factors;
    }
  }

 private:
  std::pair<std::int64_t, std::int64_t> size_for(std::int64_t height, std::int64_t width,
                                                 const PhaseContext& c) const {
    const std::int64_t step = p_.image_size_steps;
    const auto first = static_cast<std::uint64_t>(c.batch_index / p_.change_frequency);
    const auto seed = static_cast<std::uint64_t>(c.run != nullptr ? c.run->params.seed : 0);
    core::Random random{seed, static_cast<std::uint64_t>(c.state.epoch), first, 0x4D53};
    const std::int64_t steps =
        height / step - p_.multiscale_range + random.below(2 * p_.multiscale_range + 1);
    const std::int64_t rows = std::max<std::int64_t>(1, steps) * step;
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    const auto columns = static_cast<std::int64_t>(static_cast<double>(rows) / step * ratio) * step;
    return {rows, std::max<std::int64_t>(step, columns)};
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, DetectionMultiscalePrePredictionCallback,
                 "DetectionMultiscalePrePredictionCallback");
}  // namespace sgtrain::train
