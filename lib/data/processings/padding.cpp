// Steps that add borders.
#include <algorithm>

#include "data/padding.h"

#include "data/processing.h"
#include "data/read_params.h"

namespace sgtrain::data {
namespace {

/// Adds the border that plan() says.
class PaddingStep : public Processing {
 public:
  explicit PaddingStep(const cv::Scalar& color) : color_(color) {}
  cv::Mat apply(const cv::Mat& image, bool reversed, const Mapping& mapping) const override {
    if (mapping.after == image.size()) return image;
    cv::Mat out(mapping.after, CV_8UC3);
    pad_image(image, mapping.padding, pad_color(color_, reversed), out);
    return out;
  }

 protected:
  static void pad(Mapping& m, const Padding& padding) {
    m.padding = padding;
    m.after += cv::Size(padding.left + padding.right, padding.top + padding.bottom);
  }
  static void check_fits(cv::Size image, cv::Size size, const char* name) {
    if (image.width <= size.width && image.height <= size.height) return;
    throw core::Error(std::string(name) + ": the image of " + std::to_string(image.width) + "x" +
                          std::to_string(image.height) + " is larger than " +
                          std::to_string(size.width) + "x" + std::to_string(size.height),
                      {}, "put DetectionLongestMaxSizeRescale before it");
  }

 private:
  cv::Scalar color_;
};

struct PadParams {
  cv::Size output_shape;
  cv::Scalar pad_value;
  static PadParams from(core::Node& n) {
    return {.output_shape = get_size(n, "output_shape"),
            .pad_value = get_color_or(n, "pad_value", 114)};
  }
};

/// To a fixed size, the picture in the centre.
class CenterPadding final : public PaddingStep {
 public:
  using Params = PadParams;
  explicit CenterPadding(const Params& params) : PaddingStep(params.pad_value), p_(params) {}
  void plan(Mapping& m) const override {
    check_fits(m.before, p_.output_shape, "DetectionCenterPadding");
    pad(m, center_padding(m.before, p_.output_shape));
  }
  std::optional<cv::Size> output_shape() const override { return p_.output_shape; }

 private:
  Params p_;
};

/// To a fixed size, the picture at the top left.
class BottomRightPadding final : public PaddingStep {
 public:
  using Params = PadParams;
  explicit BottomRightPadding(const Params& params) : PaddingStep(params.pad_value), p_(params) {}
  void plan(Mapping& m) const override {
    check_fits(m.before, p_.output_shape, "DetectionBottomRightPadding");
    pad(m, bottom_right_padding(m.before, p_.output_shape));
  }
  std::optional<cv::Size> output_shape() const override { return p_.output_shape; }

 private:
  Params p_;
};

cv::Size next_multiple(cv::Size size, cv::Size multiple) {
  const auto up = [](int side, int step) { return (side + step - 1) / step * step; };
  return {up(size.width, multiple.width), up(size.height, multiple.height)};
}

/// On the right and below, to multiples of the given sides.
class AutoPadding final : public PaddingStep {
 public:
  struct Params {
    cv::Size multiple;
    cv::Scalar pad_value;
    static Params from(core::Node& n) {
      return {.multiple = get_size(n, "shape_multiple|divisible_value"),
              .pad_value = get_color_or(n, "pad_value|fill_image", 0)};
    }
  };
  explicit AutoPadding(const Params& params) : PaddingStep(params.pad_value), p_(params) {}
  void plan(Mapping& m) const override {
    pad(m, bottom_right_padding(m.before, next_multiple(m.before, p_.multiple)));
  }

 private:
  Params p_;
};

/// On all sides to at least the given size.
class PadShortToCropSize final : public PaddingStep {
 public:
  struct Params {
    cv::Size crop_size;
    cv::Scalar fill_image;
    static Params from(core::Node& n) {
      return {.crop_size = get_size(n, "crop_size"),
              .fill_image = get_color_or(n, "fill_image", 0)};
    }
  };
  explicit PadShortToCropSize(const Params& params) : PaddingStep(params.fill_image), p_(params) {}
  void plan(Mapping& m) const override {
    pad(m, center_padding(m.before, {std::max(m.before.width, p_.crop_size.width),
                                     std::max(m.before.height, p_.crop_size.height)}));
  }
  std::optional<cv::Size> output_shape() const override { return p_.crop_size; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Processing, CenterPadding, "DetectionCenterPadding", "KeypointsCenterPadding");
SGTRAIN_REGISTER(Processing, BottomRightPadding, "DetectionBottomRightPadding",
                 "KeypointsBottomRightPadding");
SGTRAIN_REGISTER(Processing, AutoPadding, "DetectionAutoPadding", "KeypointsAutoPadding",
                 "SegmentationPadToDivisible");
SGTRAIN_REGISTER(Processing, PadShortToCropSize, "SegmentationPadShortToCropSize");
}  // namespace sgtrain::data
