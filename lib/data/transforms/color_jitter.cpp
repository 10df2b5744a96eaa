#include <optional>

#include "data/pillow.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

using Range = std::pair<double, double>;

/// A factor's range; none when it cannot change anything.
std::optional<Range> read_factor(core::Node& n, std::string_view key, double center, double low,
                                 double high) {
  Range range = get_range_or(n, key, center, {center, center});
  const bool single = !n.child(key).is_list();
  if (single && range.second < range.first) n.problem(key, "must not be negative");
  if (single && low == 0.0) range.first = std::max(range.first, 0.0);
  if (range.first < low || range.second > high) n.problem(key, "out of bounds");
  if (range.first == center && range.second == center) return std::nullopt;
  return range;
}

/// Brightness, contrast, saturation and hue by random factors, in random order; Pillow's
/// arithmetic, as torchvision on PIL images.
class ColorJitter final : public Transform {
 public:
  struct Params {
    std::optional<Range> brightness, contrast, saturation, hue;
    static Params from(core::Node& n) {
      constexpr double kMost = 100.0;
      return {.brightness = read_factor(n, "brightness", 1.0, 0.0, kMost),
              .contrast = read_factor(n, "contrast", 1.0, 0.0, kMost),
              .saturation = read_factor(n, "saturation", 1.0, 0.0, kMost),
              .hue = read_factor(n, "hue", 0.0, -0.5, 0.5)};
    }
  };
  explicit ColorJitter(const Params& params) {
    const auto add = [this](const std::optional<Range>& range, void (*change)(cv::Mat&, double)) {
      if (range) steps_.push_back({*range, change});
    };
    add(params.brightness, pillow::brightness);
    add(params.contrast, pillow::contrast);
    add(params.saturation, pillow::color);
    add(params.hue, pillow::hue);
  }

  void apply(Sample& sample, Context& ctx) const override {
    if (steps_.empty()) return;
    ctx.own(sample.image);
    std::vector<Step> order = steps_;
    ctx.random.shuffle(order);
    for (const Step& step : order) {
      step.change(sample.image, ctx.random.uniform(step.range.first, step.range.second));
    }
  }
  bool keeps_size() const override { return true; }

 private:
  struct Step {
    Range range;
    void (*change)(cv::Mat&, double);
  };
  std::vector<Step> steps_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, ColorJitter, "ColorJitter");
}  // namespace sgtrain::data
