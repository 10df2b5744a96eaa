#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/text.h"
#include "data/padding.h"
#include "data/pillow.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

constexpr double kMaxMagnitude = 10.0;

enum class Op {
  kAutoContrast,
  kEqualize,
  kInvert,
  kRotate,
  kPosterize,
  kSolarize,
  kSolarizeAdd,
  kColor,
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kCount
};
constexpr auto kOps = static_cast<std::size_t>(Op::kCount);

/// Weights of set 0 ("w0"), in the order of Op.
constexpr std::array<double, kOps> kWeights{0.025, 0.005, 0.0,   0.3, 0.0, 0.005, 0.005, 0.025,
                                            0.005, 0.005, 0.025, 0.2, 0.2, 0.1,   0.1};

struct Config {
  double magnitude = kMaxMagnitude;
  double deviation = 0.0;  // of the magnitude; infinity: uniform in 0..magnitude
  int layers = 2;
  bool weighted = false;
  bool increasing = false;
};

/// "rand-m7-n3-mstd0.5-w0-inc1"; sections in any order. Empty and a message when it cannot be read.
std::optional<Config> parse(const std::string& text, std::string& error) {
  Config config;
  for (const std::string& section : core::split(text, '-')) {
    const std::size_t digits = std::min(section.find_first_of("0123456789"), section.size());
    const std::string key = section.substr(0, digits);
    std::string value = section.substr(digits);
    if (key == "rand" && value.empty()) continue;
    if (section == "mstdinf") {
      config.deviation = std::numeric_limits<double>::infinity();
      continue;
    }
    double number = 0.0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (value.empty() || code != std::errc{} || end != value.data() + value.size()) {
      error = "section '" + section + "' is not one of m<n>, mstd<x>, n<n>, w0, inc<0|1>";
      return std::nullopt;
    }
    if (key == "m") {
      config.magnitude = number;
    } else if (key == "mstd") {
      config.deviation = number;
    } else if (key == "n" && number >= 1 && number <= 15) {
      config.layers = static_cast<int>(number);
    } else if (key == "w" && number == 0) {
      config.weighted = true;
    } else if (key == "inc") {
      config.increasing = number != 0;
    } else {
      error = "section '" + section + "' is not one of m<n>, mstd<x>, n<1..15>, w0, inc<0|1>";
      return std::nullopt;
    }
  }
  return config;
}

/// RandAugment, Cubuk et al. 2020: a few operations drawn from a list, each done with probability
/// one half at a magnitude around m of 10. Pillow's arithmetic; bilinear, filled with the mean.
class RandAugmentTransform final : public Transform {
 public:
  struct Params {
    Config config;
    cv::Vec3b fill;
    static Params from(core::Node& n) {
      Params p;
      const std::string text = n.get<std::string>("config_str");
      std::string error;
      if (const auto config = parse(text, error)) {
        p.config = *config;
      } else if (!n.describing()) {
        n.problem("config_str", error);
      }
      n.get<int>("crop_size").min(1);  // only for absolute shifts, which the list does not have
      const std::vector<double> mean = get_channels(n, "img_mean");  // 0..1
      for (int c = 0; c < 3; ++c) {
        const double value = mean[mean.size() == 1 ? 0 : static_cast<std::size_t>(c)];
        p.fill[c] = cv::saturate_cast<uchar>(std::nearbyint(255.0 * value));
      }
      return p;
    }
  };
  explicit RandAugmentTransform(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    ctx.own(sample.image);
    for (const Op op : draw_ops(ctx.random)) {
      if (!ctx.random.chance(0.5)) continue;
      double magnitude = p_.config.magnitude;
      if (std::isinf(p_.config.deviation)) {
        magnitude = ctx.random.uniform(0.0, magnitude);
      } else if (p_.config.deviation > 0.0) {
        magnitude = ctx.random.normal(magnitude, p_.config.deviation);
      }
      run(op, std::clamp(magnitude, 0.0, kMaxMagnitude) / kMaxMagnitude, sample.image, ctx);
    }
  }
  bool keeps_size() const override { return true; }

 private:
  std::vector<Op> draw_ops(core::Random& random) const {
    std::vector<Op> out;
    std::array<double, kOps> weights = kWeights;
    for (int layer = 0; layer < p_.config.layers; ++layer) {
      if (!p_.config.weighted) {  // with replacement
        out.push_back(static_cast<Op>(random.below(static_cast<std::int64_t>(kOps))));
        continue;
      }
      double total = 0.0;
      for (const double w : weights) total += w;
      double at = random.uniform() * total;
      std::size_t pick = 0;
      for (std::size_t i = 0; i < kOps; ++i) {
        if (weights[i] <= 0.0) continue;
        pick = i;
        if (at < weights[i]) break;
        at -= weights[i];
      }
      if (weights[pick] <= 0.0) break;  // fewer operations than layers
      weights[pick] = 0.0;              // without replacement
      out.push_back(static_cast<Op>(pick));
    }
    return out;
  }

  /// @param level 0..1
  void run(Op op, double level, cv::Mat& image, Context& ctx) const {
    const auto signed_level = [&](double most) {
      return ctx.random.chance(0.5) ? -level * most : level * most;
    };
    const auto enhancement = [&] {
      return p_.config.increasing ? 1.0 + signed_level(0.9) : level * 1.8 + 0.1;
    };
    const auto steps = [&](int most) {
      const int value = static_cast<int>(level * most);
      return p_.config.increasing ? most - value : value;
    };
    switch (op) {
      case Op::kAutoContrast:
        return pillow::autocontrast(image);
      case Op::kEqualize:
        return pillow::equalize(image);
      case Op::kInvert:
        return pillow::invert(image);
      case Op::kPosterize:
        return pillow::posterize(image, steps(4));
      case Op::kSolarize:
        return pillow::solarize(image, steps(256));
      case Op::kSolarizeAdd:
        return pillow::solarize_add(image, static_cast<int>(level * 110));
      case Op::kColor:
        return pillow::color(image, enhancement());
      case Op::kContrast:
        return pillow::contrast(image, enhancement());
      case Op::kBrightness:
        return pillow::brightness(image, enhancement());
      case Op::kSharpness:
        return pillow::sharpness(image, enhancement());
      case Op::kRotate:
        return warp(image, pillow::rotation(image.size(), signed_level(30.0), false, {}).matrix,
                    ctx);
      case Op::kShearX:
        return warp(image, {1, signed_level(0.3), 0, 0, 1, 0}, ctx);
      case Op::kShearY:
        return warp(image, {1, 0, 0, signed_level(0.3), 1, 0}, ctx);
      case Op::kTranslateX:
        return warp(image, {1, 0, signed_level(0.45) * image.cols, 0, 1, 0}, ctx);
      case Op::kTranslateY:
        return warp(image, {1, 0, 0, 0, 1, signed_level(0.45) * image.rows}, ctx);
      case Op::kCount:
        return;
    }
  }

  void warp(cv::Mat& image, const std::array<double, 6>& m, Context& ctx) const {
    cv::Mat source = ctx.scratch(image.size());
    image.copyTo(source);
    pillow::affine(source, m, pillow::Filter::kBilinear, p_.fill, image);
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandAugmentTransform, "RandAugmentTransform");
}  // namespace sgtrain::data
