// Steps that add borders.
#include <algorithm>

#include "data/padding.h"

#include "data/processing.h"
#include "data/read_params.h"

namespace sgtrain::data {
namespace {

cv::Mat padded(const cv::Mat& image, const Padding& padding, const cv::Scalar& color,
               Mapping& mapping) {
  mapping.padding = padding;
  const cv::Size size(image.cols + padding.left + padding.right,
                      image.rows + padding.top + padding.bottom);
  if (size == image.size()) return image;
  cv::Mat out(size, CV_8UC3);
  pad_image(image, padding, color, out);
  return out;
}

void check_fits(const cv::Mat& image, cv::Size size, const char* name) {
  if (image.cols <= size.width && image.rows <= size.height) return;
  throw core::Error(std::string(name) + ": the image of " + std::to_string(image.cols) + "x" +
                        std::to_string(image.rows) + " is larger than " +
                        std::to_string(size.width) + "x" + std::to_string(size.height),
                    {}, "put DetectionLongestMaxSizeRescale before it");
}

struct PadParams {
  cv::Size output_shape;
  cv::Scalar pad_value;
  static PadParams from(core::Node& n) {
    return {.output_shape = get_size(n, "output_shape"),
            .pad_value = get_color_or(n, "pad_value", 114)};
  }
};

/// To a fixed size, the picture in the centre.
class CenterPadding final : public Processing {
 public:
  using Params = PadParams;
  explicit CenterPadding(const Params& params) : p_(params) {}
  cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const override {
    check_fits(image, p_.output_shape, "DetectionCenterPadding");
    return padded(image, center_padding(image.size(), p_.output_shape),
                  pad_color(p_.pad_value, reversed), mapping);
  }
  std::optional<cv::Size> output_shape() const override { return p_.output_shape; }

 private:
  Params p_;
};

/// To a fixed size, the picture at the top left.
class BottomRightPadding final : public Processing {
 public:
  using Params = PadParams;
  explicit BottomRightPadding(const Params& params) : p_(params) {}
  cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const override {
    check_fits(image, p_.output_shape, "DetectionBottomRightPadding");
    return padded(image, bottom_right_padding(image.size(), p_.output_shape),
                  pad_color(p_.pad_value, reversed), mapping);
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
class AutoPadding final : public Processing {
 public:
  struct Params {
    cv::Size multiple;
    cv::Scalar pad_value;
    static Params from(core::Node& n) {
      return {.multiple = get_size(n, "shape_multiple|divisible_value"),
              .pad_value = get_color_or(n, "pad_value|fill_image", 0)};
    }
  };
  explicit AutoPadding(const Params& params) : p_(params) {}
  cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const override {
    return padded(image,
                  bottom_right_padding(image.size(), next_multiple(image.size(), p_.multiple)),
                  pad_color(p_.pad_value, reversed), mapping);
  }

 private:
  Params p_;
};

/// On all sides to at least the given size.
class PadShortToCropSize final : public Processing {
 public:
  struct Params {
    cv::Size crop_size;
    cv::Scalar fill_image;
    static Params from(core::Node& n) {
      return {.crop_size = get_size(n, "crop_size"),
              .fill_image = get_color_or(n, "fill_image", 0)};
    }
  };
  explicit PadShortToCropSize(const Params& params) : p_(params) {}
  cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const override {
    const cv::Size size(std::max(image.cols, p_.crop_size.width),
                        std::max(image.rows, p_.crop_size.height));
    return padded(image, center_padding(image.size(), size), pad_color(p_.fill_image, reversed),
                  mapping);
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
