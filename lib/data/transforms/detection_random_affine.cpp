#include <array>
#include <cmath>

#include "data/boxes.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

using Range = std::pair<double, double>;
using Matrix = std::array<double, 6>;  // 2x3, row major; the third row is 0 0 1

Matrix multiply(const Matrix& a, const Matrix& b) {
  return {a[0] * b[0] + a[1] * b[3], a[0] * b[1] + a[1] * b[4], a[0] * b[2] + a[1] * b[5] + a[2],
          a[3] * b[0] + a[4] * b[3], a[3] * b[1] + a[4] * b[4], a[3] * b[2] + a[4] * b[5] + a[5]};
}

/// A range without width costs no random number.
double draw(core::Random& random, const Range& range) {
  return range.first == range.second ? range.first : random.uniform(range.first, range.second);
}

/// Rotates, scales and shears about the image's centre, then puts the centre near the middle of
/// the target. Boxes become the hull of their warped corners, clipped to the target.
/// Shifts are fractions of the target's own width and height (the reference implementation mixes
/// them up for images that are not square).
class DetectionRandomAffine final : public Transform {
 public:
  struct Params {
    Range degrees, translate, scales, shear;
    std::optional<cv::Size> target_size;  // none: the input's own size
    bool filter_box_candidates = false;
    double wh_thr = 2.0, ar_thr = 20.0, area_thr = 0.1;
    cv::Scalar border_value;

    static Params from(core::Node& n) {
      Params p;
      p.degrees = get_range_or(n, "degrees", 0.0, {-10.0, 10.0});
      p.translate = get_range_or(n, "translate", 0.5, {0.4, 0.6});  // where the centre comes
      p.scales = get_range_or(n, "scales", 1.0, {0.9, 1.1});
      if (p.scales.first <= 0.0) n.problem("scales", "scales must be above 0");
      p.shear = get_range_or(n, "shear", 0.0, {-10.0, 10.0});  // degrees
      const core::TreePtr written = n.tree()->find("target_size");
      p.target_size = find_size(n, "target_size");
      if (!written) p.target_size = cv::Size(640, 640);
      p.filter_box_candidates = n.get_or("filter_box_candidates", false);
      p.wh_thr = n.get_or("wh_thr", 2.0).min(0.0).help("smallest side kept, pixels");
      p.ar_thr = n.get_or("ar_thr", 20.0).min(1.0).help("largest aspect ratio kept");
      p.area_thr = n.get_or("area_thr", 0.1).in(0.0, 1.0).help("smallest share of the area kept");
      p.border_value = get_color_or(n, "border_value", 114);
      return p;
    }
  };
  explicit DetectionRandomAffine(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const cv::Size target = p_.target_size.value_or(sample.image.size());
    if (disabled() && target == sample.image.size()) return;
    const Matrix m = draw_matrix(ctx.random, sample.image.size(), target);
    cv::Mat out = ctx.result(target);
    warp_affine(sample.image, m, p_.border_value, out);
    sample.image = out;
    std::erase_if(sample.boxes, [&](Box& box) {
      const Box before = box;
      box = warp_box(box, m);
      clip_box(box, static_cast<float>(target.width), static_cast<float>(target.height));
      return p_.filter_box_candidates && !is_candidate(before, box);
    });
    clip_boxes(sample.boxes, target);
  }

  std::optional<cv::Size> fixed_size() const override { return p_.target_size; }

 private:
  bool disabled() const {
    return p_.degrees == Range(0, 0) && p_.translate == Range(0.5, 0.5) &&
           p_.scales == Range(1, 1) && p_.shear == Range(0, 0);
  }

  Matrix draw_matrix(core::Random& random, cv::Size input, cv::Size target) const {
    constexpr double kRadians = 3.14159265358979323846 / 180.0;
    const double angle = draw(random, p_.degrees) * kRadians;
    const double scale = draw(random, p_.scales);
    const double shear_x = std::tan(draw(random, p_.shear) * kRadians);
    const double shear_y = std::tan(draw(random, p_.shear) * kRadians);
    const double shift_x = draw(random, p_.translate) * target.width;
    const double shift_y = draw(random, p_.translate) * target.height;
    const double a = std::cos(angle) * scale, b = std::sin(angle) * scale;
    const Matrix center{1, 0, -static_cast<double>(input.width / 2),
                        0, 1, -static_cast<double>(input.height / 2)};
    const Matrix rotation{a, b, 0, -b, a, 0};
    const Matrix shear{1, shear_x, 0, shear_y, 1, 0};
    const Matrix translation{1, 0, shift_x, 0, 1, shift_y};
    return multiply(translation, multiply(shear, multiply(rotation, center)));
  }

  bool is_candidate(const Box& before, const Box& after) const {
    constexpr double kTiny = 1e-16;
    const double w1 = before.width(), h1 = before.height();
    const double w2 = after.width(), h2 = after.height();
    const double ratio = std::max(w2 / (h2 + kTiny), h2 / (w2 + kTiny));
    return w2 > p_.wh_thr && h2 > p_.wh_thr && w2 * h2 / (w1 * h1 + kTiny) > p_.area_thr &&
           ratio < p_.ar_thr;
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionRandomAffine, "DetectionRandomAffine");
}  // namespace sgtrain::data
