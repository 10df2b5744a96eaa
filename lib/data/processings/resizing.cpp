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
  size = {std::max(size.width, 1), std::max(size.height, 1)};
  if (size == image.size()) return image;
  cv::Mat out(size, CV_8UC3);
  resize_linear(image, out);
  return out;
}

cv::Size rounded(const cv::Mat& image, double scale) {
  return {static_cast<int>(std::nearbyint(image.cols * scale)),
          static_cast<int>(std::nearbyint(image.rows * scale))};
}

cv::Size cut(const cv::Mat& image, double scale) {
  return {static_cast<int>(image.cols * scale), static_cast<int>(image.rows * scale)};
}

double fit_scale(const cv::Mat& image, cv::Size size) {
  return std::min(static_cast<double>(size.height) / image.rows,
                  static_cast<double>(size.width) / image.cols);
}

struct ShapeParams {
  cv::Size output_shape;
  static ShapeParams from(core::Node& n) { return {.output_shape = get_size(n, "output_shape")}; }
};

/// To a fixed size; the aspect ratio is not kept.
class Rescale final : public Processing {
 public:
  using Params = ShapeParams;
  explicit Rescale(const Params& params) : size_(params.output_shape) {}
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, Mapping& mapping) const override {
    mapping.scale_x = static_cast<double>(size_.width) / image.cols;
    mapping.scale_y = static_cast<double>(size_.height) / image.rows;
    return resized(image, size_);
  }
  std::optional<cv::Size> output_shape() const override { return size_; }

 private:
  cv::Size size_;
};

/// Aspect kept, to the largest size within the shape; sides round to the nearest pixel.
class LongestMaxSizeRescale final : public Processing {
 public:
  using Params = ShapeParams;
  explicit LongestMaxSizeRescale(const Params& params) : size_(params.output_shape) {}
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, Mapping& mapping) const override {
    mapping.scale_x = mapping.scale_y = fit_scale(image, size_);
    return mapping.scale_x == 1.0 ? image : resized(image, rounded(image, mapping.scale_x));
  }

 private:
  cv::Size size_;
};

/// Shorter side to `size`, Pillow's antialiased bilinear filter.
class Resize final : public Processing {
 public:
  struct Params {
    int size = 224;
    static Params from(core::Node& n) { return {.size = n.get_or("size", 224).in(1, 65536)}; }
  };
  explicit Resize(const Params& params) : p_(params) {}
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, Mapping& mapping) const override {
    const double scale = std::max(static_cast<double>(p_.size) / image.rows,
                                  static_cast<double>(p_.size) / image.cols);
    mapping.scale_x = mapping.scale_y = scale;
    if (scale == 1.0) return image;
    cv::Mat out(cut(image, scale), CV_8UC3);
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
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, Mapping& mapping) const override {
    if (image.cols < p_.size || image.rows < p_.size) {
      throw core::Error("CenterCrop: the image of " + std::to_string(image.cols) + "x" +
                            std::to_string(image.rows) + " is smaller than " +
                            std::to_string(p_.size) + " pixels",
                        {}, "put Resize before it");
    }
    mapping.crop = {(image.cols - p_.size) / 2, (image.rows - p_.size) / 2};
    return image(cv::Rect(mapping.crop, cv::Size(p_.size, p_.size)));
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
  cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const override {
    mapping.scale_x = mapping.scale_y = fit_scale(image, p_.output_shape);
    const cv::Mat inner = resized(image, rounded(image, mapping.scale_x));
    mapping.padding = center_padding(inner.size(), p_.output_shape);
    cv::Mat out(p_.output_shape, CV_8UC3);
    pad_image(inner, mapping.padding, pad_color(p_.pad_value, reversed), out);
    return out;
  }
  std::optional<cv::Size> output_shape() const override { return p_.output_shape; }

 private:
  Params p_;
};

/// By a factor, or so that the shorter or longer side gets a size (the first one given counts).
class SegmentationRescale final : public Processing {
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
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, Mapping& mapping) const override {
    double scale = 1.0;
    if (p_.scale_factor) {
      scale = *p_.scale_factor;
    } else if (p_.short_size) {
      scale = static_cast<double>(*p_.short_size) / std::min(image.cols, image.rows);
    } else if (p_.long_size) {
      scale = static_cast<double>(*p_.long_size) / std::max(image.cols, image.rows);
    }
    mapping.scale_x = mapping.scale_y = scale;
    return scale == 1.0 ? image : resized(image, cut(image, scale));
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
