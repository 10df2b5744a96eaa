#include <algorithm>

#include "data/boxes.h"
#include "data/padding.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Resizes, aspect kept (sides are cut to whole pixels), and pads on the right and below to a fixed
/// size. The permutation to CHW happens on the device.
class DetectionPaddedRescale final : public Transform {
 public:
  struct Params {
    cv::Size input_dim;
    cv::Scalar pad_value;
    static Params from(core::Node& n) {
      Params p;
      p.input_dim = get_size(n, "input_dim");
      const std::vector<int> swap = n.get_or("swap", std::vector<int>{2, 0, 1});
      if (swap != std::vector<int>{2, 0, 1}) n.problem("swap", "must be [2, 0, 1]");
      n.find<int>("max_targets");  // without effect since SuperGradients 3.1
      p.pad_value = get_color_or(n, "pad_value", 114);
      return p;
    }
  };
  explicit DetectionPaddedRescale(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const double scale = scale_of(sample.image.size());
    const cv::Size inner = inner_size(sample.image.size());
    const bool stands = inner == sample.image.size() && ctx.stands(sample.image, p_.input_dim, {});
    cv::Mat out = stands ? ctx.batch_place() : ctx.result(p_.input_dim);
    if (!stands) resize_linear(sample.image, out(cv::Rect({0, 0}, inner)));
    fill_padding(out, bottom_right_padding(inner, p_.input_dim), pad_color(p_.pad_value, ctx.bgr));
    sample.image = out;
    scale_boxes(sample.boxes, static_cast<float>(scale), static_cast<float>(scale));
  }

  std::optional<cv::Size> fixed_size() const override { return p_.input_dim; }
  std::optional<cv::Point> place(cv::Size image) const override {
    return inner_size(image) == image ? std::optional(cv::Point()) : std::nullopt;
  }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{
        processing_entry("DetectionLongestMaxSizeRescale", {{"output_shape", tree_of(p_.input_dim)},
                                                            {"cut_sides", core::Tree::of(true)}}),
        processing_entry("DetectionBottomRightPadding", {{"output_shape", tree_of(p_.input_dim)},
                                                         {"pad_value", pad_tree(p_.pad_value)}}),
        processing_entry("ImagePermute")};
  }

 private:
  double scale_of(cv::Size image) const {
    return std::min(static_cast<double>(p_.input_dim.height) / image.height,
                    static_cast<double>(p_.input_dim.width) / image.width);
  }
  cv::Size inner_size(cv::Size image) const {
    const double scale = scale_of(image);
    return {std::max(1, static_cast<int>(image.width * scale)),
            std::max(1, static_cast<int>(image.height * scale))};
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionPaddedRescale, "DetectionPaddedRescale");
}  // namespace sgtrain::data
