#include "data/boxes.h"
#include "data/pixels.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Mirrors left and right, boxes included.
class DetectionHorizontalFlip final : public Transform {
 public:
  struct Params {
    double prob = 0.0;
    static Params from(core::Node& n) { return {.prob = n.get<double>("prob").in(0.0, 1.0)}; }
  };
  explicit DetectionHorizontalFlip(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.prob)) return;
    ctx.own(sample.image);
    flip_horizontally(sample.image);
    flip_boxes_horizontally(sample.boxes, sample.image.cols);
    clip_boxes(sample.boxes, sample.image.size());
  }
  bool keeps_size() const override { return true; }
  bool after_normalisation() const override { return true; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionHorizontalFlip, "DetectionHorizontalFlip");
}  // namespace sgtrain::data
