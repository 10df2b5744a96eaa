#include <opencv2/imgproc.hpp>

#include "data/padding.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

int border_type(const std::string& mode) {
  if (mode == "edge") return cv::BORDER_REPLICATE;
  if (mode == "reflect") return cv::BORDER_REFLECT_101;
  if (mode == "symmetric") return cv::BORDER_REFLECT;
  return cv::BORDER_CONSTANT;
}

/// `padding` of torchvision: n, [left/right, top/bottom] or [left, top, right, bottom].
Padding read_padding(core::Node& n) {
  if (n.describing() || !n.has("padding")) {
    n.find<std::vector<int>>("padding");
    return {};
  }
  core::Node value = n.child("padding");
  const std::vector<int> p =
      value.is_list() ? value.as<std::vector<int>>() : std::vector<int>{value.as<int>()};
  const bool in_bounds =
      std::all_of(p.begin(), p.end(), [](int side) { return side >= 0 && side <= 4096; });
  if (in_bounds && p.size() == 1) return {p[0], p[0], p[0], p[0]};
  if (in_bounds && p.size() == 2) return {p[1], p[1], p[0], p[0]};
  if (in_bounds && p.size() == 4) return {p[1], p[3], p[0], p[2]};
  n.problem(
      "padding",
      "expected n, [left/right, top/bottom] or [left, top, right, bottom], each in [0, 4096]");
  return {};
}

/// Pads, then cuts a window of the given size at a random place.
class RandomCrop final : public Transform {
 public:
  struct Params {
    cv::Size size;
    Padding padding;
    bool pad_if_needed = false;
    cv::Scalar fill;
    int border = cv::BORDER_CONSTANT;
    static Params from(core::Node& n) {
      Params p;
      p.size = get_size(n, "size");
      p.padding = read_padding(n);
      p.pad_if_needed = n.get_or("pad_if_needed", false);
      p.fill = get_color_or(n, "fill", 0);
      p.border = border_type(n.get_or("padding_mode", "constant")
                                 .one_of({"constant", "edge", "reflect", "symmetric"}));
      return p;
    }
  };
  explicit RandomCrop(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    cv::Mat image = padded(sample.image, ctx);
    if (image.cols < p_.size.width || image.rows < p_.size.height) {
      throw core::Error("RandomCrop: the image of " + std::to_string(image.cols) + "x" +
                            std::to_string(image.rows) + " is smaller than the crop of " +
                            std::to_string(p_.size.width) + "x" + std::to_string(p_.size.height),
                        sample.name, "set pad_if_needed: true, or resize first");
    }
    const int x = draw(image.cols - p_.size.width, ctx.random);
    const int y = draw(image.rows - p_.size.height, ctx.random);
    sample.image = image(cv::Rect({x, y}, p_.size));
  }
  std::optional<cv::Size> fixed_size() const override { return p_.size; }

 private:
  /// An offset in 0..most; no draw where there is no choice.
  static int draw(int most, core::Random& random) {
    return most > 0 ? static_cast<int>(random.below(most + 1)) : 0;
  }

  cv::Mat padded(const cv::Mat& image, Context& ctx) const {
    Padding p = p_.padding;
    if (p_.pad_if_needed) {
      const int width = p_.size.width - image.cols - p.left - p.right;
      const int height = p_.size.height - image.rows - p.top - p.bottom;
      if (width > 0) p.left += width, p.right += width;
      if (height > 0) p.top += height, p.bottom += height;
    }
    if (p.top + p.bottom + p.left + p.right == 0) return image;
    cv::Mat out = ctx.scratch({image.cols + p.left + p.right, image.rows + p.top + p.bottom});
    cv::copyMakeBorder(image, out, p.top, p.bottom, p.left, p.right,
                       p_.border | cv::BORDER_ISOLATED, pad_color(p_.fill, ctx.bgr));
    return out;
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomCrop, "RandomCrop");
}  // namespace sgtrain::data
