#include <cmath>

#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Random erasing, Zhong et al. 2020. Values are those of the network input where the transform
/// stands behind normalisation, as in the reference; they are turned into the bytes that give them
/// (rounded, cut to 0..255).
class RandomErase final : public Transform {
 public:
  struct Params {
    double probability = 0.5;
    std::pair<double, double> scale, ratio;  // share of the area; width to height
    bool noise = false;                      // normal noise instead of a value
    std::vector<double> value{0.0};
    static Params from(core::Node& n) {
      Params p;
      p.probability = n.get_or("probability|p", 0.5).in(0.0, 1.0);
      p.scale = get_range_or(n, "scale", 0.0, {0.02, 0.33});
      p.ratio = get_range_or(n, "ratio", 0.0, {0.3, 3.3});
      if (p.ratio.first <= 0.0) n.problem("ratio", "must be above 0");
      n.get_or("inplace", false);
      if (n.describing() || !n.has("value")) {
        n.get_or("value", 0.0).help("a number, one for each channel, or 'random'");
      } else if (n.child("value").is_string() && !n.child("value").is_number()) {
        n.get<std::string>("value").one_of({"random"});
        p.noise = true;
      } else {
        p.value = get_channels(n, "value");
      }
      return p;
    }
  };
  explicit RandomErase(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.probability)) return;
    const cv::Rect window = draw(sample.image.size(), ctx.random);
    if (window.empty()) return;
    ctx.own(sample.image);
    for (int y = window.y; y < window.y + window.height; ++y) {
      auto* pixel = sample.image.ptr<uchar>(y) + 3 * window.x;
      for (int x = 0; x < window.width; ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          const double value =
              p_.noise ? ctx.random.normal() : p_.value[p_.value.size() == 1 ? 0 : c];
          *pixel++ = cv::saturate_cast<uchar>(ctx.normalisation.to_pixel(c, value));
        }
      }
    }
  }
  bool keeps_size() const override { return true; }
  bool after_normalisation() const override { return true; }

 private:
  cv::Rect draw(cv::Size image, core::Random& random) const {
    const double area = static_cast<double>(image.width) * image.height;
    for (int tries = 0; tries < 10; ++tries) {
      const double target = area * random.uniform(p_.scale.first, p_.scale.second);
      const double ratio =
          std::exp(random.uniform(std::log(p_.ratio.first), std::log(p_.ratio.second)));
      const int height = static_cast<int>(std::nearbyint(std::sqrt(target * ratio)));
      const int width = static_cast<int>(std::nearbyint(std::sqrt(target / ratio)));
      if (height >= image.height || width >= image.width) continue;
      const int y = static_cast<int>(random.below(image.height - height + 1));
      const int x = static_cast<int>(random.below(image.width - width + 1));
      return {x, y, width, height};
    }
    return {};
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomErase, "RandomErase", "RandomErasing");
}  // namespace sgtrain::data
