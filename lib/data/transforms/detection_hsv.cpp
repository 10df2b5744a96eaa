#include <algorithm>

#include "data/pixels.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Shifts hue, saturation and value by up to the given gains (OpenCV's 8-bit units: hue 0..180),
/// each switched on with probability one half. No shift at all leaves the image as it is (the
/// reference implementation rounds it through HSV once).
class DetectionHSV final : public Transform {
 public:
  struct Params {
    double prob = 0.0;
    double hgain = 0.5, sgain = 0.5, vgain = 0.5;
    bool reversed = false;  // bgr_channels [2, 1, 0]

    static Params from(core::Node& n) {
      Params p;
      p.prob = n.get<double>("prob").in(0.0, 1.0);
      p.hgain = n.get_or("hgain", 0.5).in(0.0, 180.0);
      p.sgain = n.get_or("sgain", 0.5).in(0.0, 255.0);
      p.vgain = n.get_or("vgain", 0.5).in(0.0, 255.0);
      const std::vector<int> order = n.get_or("bgr_channels", std::vector<int>{0, 1, 2});
      p.reversed = order == std::vector<int>{2, 1, 0};
      if (!p.reversed && order != std::vector<int>{0, 1, 2}) {
        n.problem("bgr_channels", "must be [0, 1, 2] or [2, 1, 0]: images have 3 channels");
      }
      return p;
    }
  };
  explicit DetectionHSV(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.prob)) return;
    const auto draw = [&ctx](double gain) {
      const auto shift = static_cast<int>(ctx.random.uniform(-1.0, 1.0) * gain);
      return ctx.random.chance(0.5) ? shift : 0;
    };
    const int hue = draw(p_.hgain), saturation = draw(p_.sgain), value = draw(p_.vgain);
    if (hue == 0 && saturation == 0 && value == 0) return;
    ctx.own(sample.image);
    // The transform takes its first channel for blue. Where the reference would hold BGR, our first
    // channel is red; where it would hold RGB, it takes red for blue, and so do we.
    shift_hsv(sample.image, hue, saturation, value, /*bgr=*/ctx.bgr == p_.reversed);
  }

  bool keeps_size() const override { return true; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionHSV, "DetectionHSV");
}  // namespace sgtrain::data
