#include <algorithm>

#include "data/pillow.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// torchvision's Resize on PIL images: one number is the shorter side (the longer is cut to whole
/// pixels), [height, width] is the exact size. Pillow's antialiased filter.
class Resize final : public Transform {
 public:
  struct Params {
    cv::Size size;
    bool shorter_side = true;
    int max_size = 0;  // of the longer side; 0: no bound
    pillow::Filter filter = pillow::Filter::kBilinear;
    static Params from(core::Node& n) {
      Params p;
      core::Node written = n.child("size");
      p.shorter_side = !(written.is_list() && written.size() == 2);
      p.size = get_size(n, "size");
      p.max_size = n.get_or("max_size", 0).in(0, 65536);
      const std::string name =
          n.get_or("interpolation", "bilinear")
              .one_of({"nearest", "bilinear", "bicubic", "lanczos", "hamming", "box"});
      p.filter = pillow::filter_of(name).value_or(pillow::Filter::kBilinear);
      n.get_or("antialias", true);
      return p;
    }
  };
  explicit Resize(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    const cv::Size size = p_.shorter_side ? by_shorter_side(sample.image.size()) : p_.size;
    if (size == sample.image.size()) return;
    cv::Mat out = ctx.result(size);
    pillow::resize(sample.image, p_.filter, out);
    sample.image = out;
  }

  std::optional<cv::Size> fixed_size() const override {
    return p_.shorter_side ? std::nullopt : std::optional(p_.size);
  }
  std::optional<ProcessingList> processing() const override {
    if (!p_.shorter_side) return std::nullopt;  // the reference has no such processing
    return ProcessingList{processing_entry(
        "Resize", {{"size", core::Tree::of(static_cast<std::int64_t>(p_.size.width))}})};
  }

 private:
  cv::Size by_shorter_side(cv::Size image) const {
    const int shorter = std::min(image.width, image.height);
    const int longer = std::max(image.width, image.height);
    int new_short = p_.size.width;
    auto new_long = static_cast<int>(static_cast<double>(new_short) * longer / shorter);
    if (p_.max_size > 0 && new_long > p_.max_size) {
      new_short = static_cast<int>(static_cast<double>(p_.max_size) * new_short / new_long);
      new_long = p_.max_size;
    }
    new_short = std::max(new_short, 1);
    return image.width <= image.height ? cv::Size(new_short, new_long)
                                       : cv::Size(new_long, new_short);
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, Resize, "Resize");
}  // namespace sgtrain::data
