// Steps that resize or crop.
#include <algorithm>
#include <cmath>

#include "data/pillow.h"
#include "data/pixels.h"
#include "data/processing.h"
#include "data/read_params.h"

namespace sgtrain::data {
namespace {

cv::Mat resized(const cv::Mat& image, cv::Size size) {
  if (size == image.size()) return image;
  cv::Mat out(size, CV_8UC3);
  resize_linear(image, out);
  return out;
}

cv::Size at_least_1(cv::Size size) {
  return {std::max(size.width, 1), std::max(size.height, 1)};
}

cv::Size rounded(cv::Size size, double scale) {
  return at_least_1({static_cast<int>(std::nearbyint(size.width * scale)),
                     static_cast<int>(std::nearbyint(size.height * scale))});
}

cv::Size cut(cv::Size size, double scale) {
  return at_least_1({static_cast<int>(size.width * scale), static_cast<int>(size.height * scale)});
}

double fit_scale(cv::Size size, cv::Size limit) {
  return std::min(static_cast<double>(limit.height) / size.height,
                  static_cast<double>(limit.width) / size.width);
}

/// Resizes to where plan() says, bilinear.
class Resizing : public Processing {
 public:
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, const Mapping& mapping) const override {
    return resized(image, mapping.after);
  }
};

struct ShapeParams {
  cv::Size output_shape;
  static ShapeParams from(core::Node& n) { return {.output_shape = get_size(n, "output_shape")}; }
};

/// To a fixed size; the aspect ratio is not kept.
class Rescale final : public Resizing {
 public:
  using Params = ShapeParams;
  explicit Rescale(const Params& params) : size_(params.output_shape) {}
  void plan(Mapping& m) const override {
    m.scale_x = static_cast<double>(size_.width) / m.before.width;
    m.scale_y = static_cast<double>(size_.height) / m.before.height;
    m.after = size_;
  }
  std::optional<cv::Size> output_shape() const override { return size_; }

 private:
  cv::Size size_;
};

/// Aspect kept, to the largest size within the shape. Sides round to the nearest pixel, as the
/// reference's predict() does, or are cut, as its data sets do.
class LongestMaxSizeRescale final : public Resizing {
 public:
  struct Params {
    cv::Size output_shape;
    bool cut_sides = false;  // ours: equal to the picture that validation saw
    static Params from(core::Node& n) {
      return {.output_shape = get_size(n, "output_shape"),
              .cut_sides = n.get_or("cut_sides", false)};
    }
  };
  explicit LongestMaxSizeRescale(const Params& params) : p_(params) {}
  void plan(Mapping& m) const override {
    m.scale_x = m.scale_y = fit_scale(m.before, p_.output_shape);
    if (m.scale_x != 1.0)
      m.after = p_.cut_sides ? cut(m.before, m.scale_x) : rounded(m.before, m.scale_x);
  }

 private:
  Params p_;
};

/// Shorter side to `size`, Pillow's antialiased bilinear filter.
class Resize final : public Processing {
 public:
  struct Params {
    int size = 224;
    static Params from(core::Node& n) { return {.size = n.get_or("size", 224).in(1, 65536)}; }
  };
  explicit Resize(const Params& params) : p_(params) {}
  void plan(Mapping& m) const override {
    m.scale_x = m.scale_y = std::max(static_cast<double>(p_.size) / m.before.height,
                                     static_cast<double>(p_.size) / m.before.width);
    if (m.scale_x != 1.0) m.after = cut(m.before, m.scale_x);
  }
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, const Mapping& mapping) const override {
    if (mapping.scale_x == 1.0) return image;
    cv::Mat out(mapping.after, CV_8UC3);
    pillow::resize(image, pillow::Filter::kBilinear, out);
    return out;
  }

 private:
  Params p_;
};

/// The central square window.
class CenterCrop final : public Processing {
 public:
  struct Params {
    int size = 224;
    static Params from(core::Node& n) { return {.size = n.get_or("size", 224).in(1, 65536)}; }
  };
  explicit CenterCrop(const Params& params) : p_(params) {}
  void plan(Mapping& m) const override {
    if (m.before.width < p_.size || m.before.height < p_.size) {
      throw core::Error("CenterCrop: the image of " + std::to_string(m.before.width) + "x" +
                            std::to_string(m.before.height) + " is smaller than " +
                            std::to_string(p_.size) + " pixels",
                        {}, "put Resize before it");
    }
    m.crop = {(m.before.width - p_.size) / 2, (m.before.height - p_.size) / 2};
    m.after = {p_.size, p_.size};
  }
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, const Mapping& mapping) const override {
    return image(cv::Rect(mapping.crop, mapping.after));
  }
  std::optional<cv::Size> output_shape() const override { return cv::Size(p_.size, p_.size); }

 private:
  Params p_;
};

/// Aspect kept to within the shape, then padded on all sides.
class ResizeWithPadding final : public Processing {
 public:
  struct Params {
    cv::Size output_shape;
    cv::Scalar pad_value;
    static Params from(core::Node& n) {
      return {.output_shape = get_size(n, "output_shape"),
              .pad_value = get_color_or(n, "pad_value", 0)};
    }
  };
  explicit ResizeWithPadding(const Params& params) : p_(params) {}
  void plan(Mapping& m) const override {
    m.scale_x = m.scale_y = fit_scale(m.before, p_.output_shape);
    m.padding = center_padding(rounded(m.before, m.scale_x), p_.output_shape);
    m.after = p_.output_shape;
  }
  cv::Mat apply(const cv::Mat& image, bool reversed, const Mapping& mapping) const override {
    const cv::Mat inner = resized(image, rounded(image.size(), mapping.scale_x));
    cv::Mat out(mapping.after, CV_8UC3);
    pad_image(inner, mapping.padding, pad_color(p_.pad_value, reversed), out);
    return out;
  }
  std::optional<cv::Size> output_shape() const override { return p_.output_shape; }

 private:
  Params p_;
};

/// By a factor, or so that the shorter or longer side gets a size (the first one given counts).
class SegmentationRescale final : public Resizing {
 public:
  struct Params {
    std::optional<double> scale_factor;
    std::optional<int> short_size, long_size;
    static Params from(core::Node& n) {
      Params p{.scale_factor = n.find<double>("scale_factor"),
               .short_size = n.find<int>("short_size"),
               .long_size = n.find<int>("long_size")};
      const bool bad = (p.scale_factor && !(*p.scale_factor > 0.0 && *p.scale_factor <= 100.0)) ||
                       (p.short_size && (*p.short_size < 1 || *p.short_size > 65536)) ||
                       (p.long_size && (*p.long_size < 1 || *p.long_size > 65536));
      const bool none = !p.scale_factor && !p.short_size && !p.long_size;
      if (!n.describing() && (bad || none)) {
        n.problem("needs scale_factor in (0, 100], or short_size or long_size in [1, 65536]");
      }
      return p;
    }
  };
  explicit SegmentationRescale(const Params& params) : p_(params) {}
  void plan(Mapping& m) const override {
    double scale = 1.0;
    if (p_.scale_factor) {
      scale = *p_.scale_factor;
    } else if (p_.short_size) {
      scale = static_cast<double>(*p_.short_size) / std::min(m.before.width, m.before.height);
    } else if (p_.long_size) {
      scale = static_cast<double>(*p_.long_size) / std::max(m.before.width, m.before.height);
    }
    m.scale_x = m.scale_y = scale;
    if (scale != 1.0) m.after = cut(m.before, scale);
  }
  std::optional<cv::Size> output_shape() const override {
    return p_.long_size ? std::optional(cv::Size(*p_.long_size, *p_.long_size)) : std::nullopt;
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Processing, Rescale, "DetectionRescale", "KeypointsRescale", "SegmentationResize");
SGTRAIN_REGISTER(Processing, LongestMaxSizeRescale, "DetectionLongestMaxSizeRescale",
                 "KeypointsLongestMaxSizeRescale");
SGTRAIN_REGISTER(Processing, Resize, "Resize");
SGTRAIN_REGISTER(Processing, CenterCrop, "CenterCrop");
SGTRAIN_REGISTER(Processing, ResizeWithPadding, "SegmentationResizeWithPadding");
SGTRAIN_REGISTER(Processing, SegmentationRescale, "SegmentationRescale");
}  // namespace sgtrain::data
