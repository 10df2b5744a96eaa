#include <algorithm>

#include "data/boxes.h"
#include "data/padding.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Pads to at least min_height x min_width, on the right and below or on all sides.
class DetectionPadIfNeeded final : public Transform {
 public:
  struct Params {
    cv::Size least;
    cv::Scalar pad_value;
    bool center = false;
    static Params from(core::Node& n) {
      Params p;
      p.least.height = n.get<int>("min_height").in(1, 65536);
      p.least.width = n.get<int>("min_width").in(1, 65536);
      if (!n.has("pad_value")) n.get<int>("pad_value");
      p.pad_value = get_color_or(n, "pad_value", 0);
      const std::string mode =
          n.get_or("padding_mode", "bottom_right").one_of({"bottom_right", "center"});
      p.center = mode == "center";
      return p;
    }
  };
  explicit DetectionPadIfNeeded(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const cv::Size size(std::max(sample.image.cols, p_.least.width),
                        std::max(sample.image.rows, p_.least.height));
    if (size == sample.image.size()) return;
    const Padding padding = p_.center ? center_padding(sample.image.size(), size)
                                      : bottom_right_padding(sample.image.size(), size);
    cv::Mat out = ctx.result(size);
    pad_image(sample.image, padding, pad_color(p_.pad_value, ctx.bgr), out);
    sample.image = out;
    shift_boxes(sample.boxes, static_cast<float>(padding.left), static_cast<float>(padding.top));
    clip_boxes(sample.boxes, size);
  }

  std::optional<ProcessingList> processing() const override {
    return ProcessingList{processing_entry(
        p_.center ? "DetectionCenterPadding" : "DetectionBottomRightPadding",
        {{"output_shape", tree_of(p_.least)}, {"pad_value", pad_tree(p_.pad_value)}})};
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionPadIfNeeded, "DetectionPadIfNeeded");
}  // namespace sgtrain::data
