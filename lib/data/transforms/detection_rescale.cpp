#include "data/boxes.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Resizes to the given size; the aspect ratio is not kept.
class DetectionRescale final : public Transform {
 public:
  struct Params {
    cv::Size output_shape;
    static Params from(core::Node& n) { return {.output_shape = get_size(n, "output_shape")}; }
  };
  explicit DetectionRescale(const Params& params) : size_(params.output_shape) {}

  void apply(Sample& sample, Context& ctx) const override {
    const double scale_x = static_cast<double>(size_.width) / sample.image.cols;
    const double scale_y = static_cast<double>(size_.height) / sample.image.rows;
    cv::Mat out = ctx.result(size_);
    resize_linear(sample.image, out);
    sample.image = out;
    scale_boxes(sample.boxes, static_cast<float>(scale_x), static_cast<float>(scale_y));
    clip_boxes(sample.boxes, size_);
  }
  std::optional<cv::Size> fixed_size() const override { return size_; }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{processing_entry("DetectionRescale", {{"output_shape", tree_of(size_)}})};
  }

 private:
  cv::Size size_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionRescale, "DetectionRescale");
}  // namespace sgtrain::data
