#include <opencv2/core.hpp>

#include "data/boxes.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Turns upside down, boxes included.
class DetectionVerticalFlip final : public Transform {
 public:
  struct Params {
    double prob = 0.0;
    static Params from(core::Node& n) { return {.prob = n.get<double>("prob").in(0.0, 1.0)}; }
  };
  explicit DetectionVerticalFlip(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.prob)) return;
    ctx.own(sample.image);
    cv::flip(sample.image, sample.image, 0);
    flip_boxes_vertically(sample.boxes, sample.image.rows);
    clip_boxes(sample.boxes, sample.image.size());
  }
  bool keeps_size() const override { return true; }
  bool after_normalisation() const override { return true; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionVerticalFlip, "DetectionVerticalFlip");
}  // namespace sgtrain::data
