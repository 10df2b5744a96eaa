#include <algorithm>
#include <cmath>

#include "data/padding.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Cuts the central window; a smaller image is first padded with black.
class CenterCrop final : public Transform {
 public:
  struct Params {
    cv::Size size;
    static Params from(core::Node& n) { return {.size = get_size(n, "size")}; }
  };
  explicit CenterCrop(const Params& params) : size_(params.size) {}

  void apply(Sample& sample, Context& ctx) const override {
    cv::Mat image = sample.image;
    if (image.cols < size_.width || image.rows < size_.height) {
      const cv::Size padded(std::max(image.cols, size_.width), std::max(image.rows, size_.height));
      cv::Mat out = ctx.scratch(padded);
      pad_image(image, center_padding(image.size(), padded), cv::Scalar(), out);
      image = out;
    }
    const cv::Point corner(static_cast<int>(std::nearbyint((image.cols - size_.width) / 2.0)),
                           static_cast<int>(std::nearbyint((image.rows - size_.height) / 2.0)));
    sample.image = image(cv::Rect(corner, size_));
  }
  std::optional<cv::Size> fixed_size() const override { return size_; }
  bool after_normalisation() const override { return true; }
  std::optional<ProcessingList> processing() const override {
    if (size_.width != size_.height) return std::nullopt;  // the reference has no such processing
    return ProcessingList{processing_entry(
        "CenterCrop", {{"size", core::Tree::of(static_cast<std::int64_t>(size_.width))}})};
  }

 private:
  cv::Size size_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, CenterCrop, "CenterCrop");
}  // namespace sgtrain::data
