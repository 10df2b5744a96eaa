#include <opencv2/core.hpp>

#include "data/boxes.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// With the given probability turns by 0, 90, 180 or 270 degrees, all equally likely.
class DetectionRandomRotate90 final : public Transform {
 public:
  struct Params {
    double prob = 0.5;
    static Params from(core::Node& n) { return {.prob = n.get_or("prob", 0.5).in(0.0, 1.0)}; }
  };
  explicit DetectionRandomRotate90(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.prob)) return;
    const auto turns = static_cast<int>(ctx.random.below(4));
    if (turns == 0) return;
    const cv::Size before = sample.image.size();
    cv::Mat out = ctx.result(turns == 2 ? before : cv::Size(before.height, before.width));
    constexpr std::array<int, 3> kCodes{cv::ROTATE_90_COUNTERCLOCKWISE, cv::ROTATE_180,
                                        cv::ROTATE_90_CLOCKWISE};
    cv::rotate(sample.image, out, kCodes[static_cast<std::size_t>(turns - 1)]);
    sample.image = out;
    rotate_boxes_90(sample.boxes, turns, before);
    clip_boxes(sample.boxes, out.size());
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionRandomRotate90, "DetectionRandomRotate90");
}  // namespace sgtrain::data
