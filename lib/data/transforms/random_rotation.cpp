#include "data/padding.h"
#include "data/pillow.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Rotates by a random angle (degrees, counter-clockwise), Pillow's arithmetic.
class RandomRotation final : public Transform {
 public:
  struct Params {
    std::pair<double, double> degrees;
    pillow::Filter filter = pillow::Filter::kNearest;
    bool expand = false;
    std::optional<cv::Point2d> center;
    cv::Scalar fill;
    static Params from(core::Node& n) {
      Params p;
      if (!n.has("degrees")) n.get<double>("degrees");
      p.degrees = get_range_or(n, "degrees", 0.0, {0.0, 0.0});
      if (p.degrees.second < p.degrees.first) n.problem("degrees", "must not be negative");
      const std::string name = n.get_or("interpolation", "nearest").one_of({"nearest", "bilinear"});
      p.filter = pillow::filter_of(name).value_or(pillow::Filter::kNearest);
      p.expand = n.get_or("expand", false);
      if (const auto at = n.find<std::vector<double>>("center")) {
        if (at->size() == 2) p.center = cv::Point2d((*at)[0], (*at)[1]);
        if (at->size() != 2) n.problem("center", "expected [x, y] in pixels");
      }
      p.fill = get_color_or(n, "fill", 0);
      return p;
    }
  };
  explicit RandomRotation(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (p_.degrees == std::pair(0.0, 0.0)) return;
    const double degrees = ctx.random.uniform(p_.degrees.first, p_.degrees.second);
    const pillow::Rotation r = pillow::rotation(sample.image.size(), degrees, p_.expand, p_.center);
    cv::Mat out = ctx.result(r.size);
    const cv::Scalar fill = pad_color(p_.fill, ctx.bgr);
    pillow::affine(sample.image, r.matrix, p_.filter,
                   cv::Vec3b(cv::saturate_cast<uchar>(fill[0]), cv::saturate_cast<uchar>(fill[1]),
                             cv::saturate_cast<uchar>(fill[2])),
                   out);
    sample.image = out;
  }
  // Without `expand` the size stays, but a new image is made: pixels do not change in place.

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomRotation, "RandomRotation");
}  // namespace sgtrain::data
