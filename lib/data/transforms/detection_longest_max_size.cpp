#include <algorithm>

#include "data/boxes.h"
#include "data/pixels.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Resizes, aspect kept, to the largest size within max_height x max_width (sides round to the
/// nearest pixel, halves up).
class DetectionLongestMaxSize final : public Transform {
 public:
  struct Params {
    int max_height = 0, max_width = 0;
    double prob = 1.0;
    static Params from(core::Node& n) {
      Params p;
      p.max_height = n.get<int>("max_height").in(1, 65536);
      p.max_width = n.get<int>("max_width").in(1, 65536);
      n.get_or("interpolation", 1).in(1, 1).help("OpenCV's code; bilinear (1) is what is done");
      p.prob = n.get_or("prob", 1.0).in(0.0, 1.0);
      return p;
    }
  };
  explicit DetectionLongestMaxSize(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!ctx.random.chance(p_.prob)) return;
    const double scale = std::min(static_cast<double>(p_.max_height) / sample.image.rows,
                                  static_cast<double>(p_.max_width) / sample.image.cols);
    if (scale != 1.0) {
      cv::Mat out = ctx.result({std::max(1, static_cast<int>(sample.image.cols * scale + 0.5)),
                                std::max(1, static_cast<int>(sample.image.rows * scale + 0.5))});
      resize_linear(sample.image, out);
      sample.image = out;
    }
    scale_boxes(sample.boxes, static_cast<float>(scale), static_cast<float>(scale));
    clip_boxes(sample.boxes, sample.image.size());
  }

  std::optional<ProcessingList> processing() const override {
    if (p_.prob < 1.0) return std::nullopt;
    return ProcessingList{
        processing_entry("DetectionLongestMaxSizeRescale",
                         {{"output_shape", tree_of(cv::Size(p_.max_width, p_.max_height))}})};
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionLongestMaxSize, "DetectionLongestMaxSize");
}  // namespace sgtrain::data
