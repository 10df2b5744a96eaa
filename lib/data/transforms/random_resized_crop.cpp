#include <algorithm>
#include <cmath>

#include "data/pillow.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Cuts a window of random area and aspect ratio and resizes it (Szegedy et al. 2015), with
/// Pillow's antialiased filters.
class RandomResizedCrop final : public Transform {
 public:
  struct Params {
    cv::Size size;
    std::pair<double, double> scale, ratio;
    pillow::Filter filter = pillow::Filter::kBilinear;
    static Params from(core::Node& n) {
      Params p;
      p.size = get_size(n, "size");
      p.scale = get_range_or(n, "scale", 0.0, {0.08, 1.0});
      if (p.scale.first <= 0.0 || p.scale.second > 1.0) n.problem("scale", "must lie in (0, 1]");
      p.ratio = get_range_or(n, "ratio", 0.0, {3.0 / 4.0, 4.0 / 3.0});
      if (p.ratio.first <= 0.0) n.problem("ratio", "must be above 0");
      // "random" is bilinear in the reference implementation, too.
      const std::string name = n.get_or("interpolation", "default")
                                   .one_of({"default", "random", "nearest", "bilinear", "bicubic",
                                            "lanczos", "hamming", "box"});
      p.filter = pillow::filter_of(name).value_or(pillow::Filter::kBilinear);
      n.get_or("antialias", true);
      return p;
    }
  };
  explicit RandomResizedCrop(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const cv::Rect window = draw(sample.image.size(), ctx.random);
    cv::Mat out = ctx.result(p_.size);
    pillow::resize(sample.image(window), p_.filter, out);
    sample.image = out;
  }
  std::optional<cv::Size> fixed_size() const override { return p_.size; }

 private:
  cv::Rect draw(cv::Size image, core::Random& random) const {
    const double area = static_cast<double>(image.width) * image.height;
    for (int tries = 0; tries < 10; ++tries) {
      const double target = area * random.uniform(p_.scale.first, p_.scale.second);
      const double ratio =
          std::exp(random.uniform(std::log(p_.ratio.first), std::log(p_.ratio.second)));
      const int width = static_cast<int>(std::nearbyint(std::sqrt(target * ratio)));
      const int height = static_cast<int>(std::nearbyint(std::sqrt(target / ratio)));
      if (width <= 0 || width > image.width || height <= 0 || height > image.height) continue;
      const int y = static_cast<int>(random.below(image.height - height + 1));
      const int x = static_cast<int>(random.below(image.width - width + 1));
      return {x, y, width, height};
    }
    // The largest central window with an allowed ratio.
    const double ratio = static_cast<double>(image.width) / image.height;
    cv::Size size = image;
    if (ratio < p_.ratio.first) {
      size.height =
          std::min(image.height, static_cast<int>(std::nearbyint(image.width / p_.ratio.first)));
    } else if (ratio > p_.ratio.second) {
      size.width =
          std::min(image.width, static_cast<int>(std::nearbyint(image.height * p_.ratio.second)));
    }
    size = {std::max(size.width, 1), std::max(size.height, 1)};
    return {{(image.width - size.width) / 2, (image.height - size.height) / 2}, size};
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomResizedCrop, "RandomResizedCropAndInterpolation",
                 "RandomResizedCrop");
}  // namespace sgtrain::data
