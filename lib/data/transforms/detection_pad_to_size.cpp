#include "data/boxes.h"
#include "data/padding.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Pads on all sides to a fixed size; the image stays in the centre. A larger image is an error.
class DetectionPadToSize final : public Transform {
 public:
  struct Params {
    cv::Size output_size;
    cv::Scalar pad_value;
    static Params from(core::Node& n) {
      Params p;
      p.output_size = get_size(n, "output_size");
      if (!n.has("pad_value")) n.get<int>("pad_value");
      p.pad_value = get_color_or(n, "pad_value", 0);
      return p;
    }
  };
  explicit DetectionPadToSize(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const cv::Size size = p_.output_size;
    if (sample.image.cols > size.width || sample.image.rows > size.height) {
      throw core::Error("DetectionPadToSize: the image of " + std::to_string(sample.image.cols) +
                            "x" + std::to_string(sample.image.rows) + " is larger than " +
                            std::to_string(size.width) + "x" + std::to_string(size.height),
                        sample.name,
                        "set input_dim of the data set, or add DetectionLongestMaxSize");
    }
    const Padding padding = center_padding(sample.image.size(), size);
    const cv::Scalar color = pad_color(p_.pad_value, ctx.bgr);
    if (ctx.stands(sample.image, size, {padding.left, padding.top})) {
      sample.image = ctx.batch_place();
      fill_padding(sample.image, padding, color);
    } else {
      cv::Mat out = ctx.result(size);
      pad_image(sample.image, padding, color, out);
      sample.image = out;
    }
    shift_boxes(sample.boxes, static_cast<float>(padding.left), static_cast<float>(padding.top));
    clip_boxes(sample.boxes, size);
  }

  std::optional<cv::Size> fixed_size() const override { return p_.output_size; }
  std::optional<cv::Point> place(cv::Size image) const override {
    if (image.width > p_.output_size.width || image.height > p_.output_size.height) return {};
    const Padding padding = center_padding(image, p_.output_size);
    return cv::Point(padding.left, padding.top);
  }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{processing_entry(
        "DetectionCenterPadding",
        {{"output_shape", tree_of(p_.output_size)}, {"pad_value", pad_tree(p_.pad_value)}})};
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionPadToSize, "DetectionPadToSize");
}  // namespace sgtrain::data
