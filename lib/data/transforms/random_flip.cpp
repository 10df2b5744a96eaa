#include <opencv2/core.hpp>

#include "data/pixels.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

struct FlipParams {
  double p = 0.5;
  static FlipParams from(core::Node& n) { return {.p = n.get_or("p|prob", 0.5).in(0.0, 1.0)}; }
};

class Flip : public Transform {
 public:
  explicit Flip(double p) : p_(p) {}
  void apply(Sample& sample, Context& ctx) const final {
    if (!ctx.random.chance(p_)) return;
    ctx.own(sample.image);
    mirror(sample.image);
  }
  bool keeps_size() const final { return true; }
  bool after_normalisation() const final { return true; }

 private:
  virtual void mirror(cv::Mat& image) const = 0;
  double p_;
};

/// Mirrors left and right (images without boxes).
class RandomHorizontalFlip final : public Flip {
 public:
  using Params = FlipParams;
  explicit RandomHorizontalFlip(const Params& params) : Flip(params.p) {}

 private:
  void mirror(cv::Mat& image) const override { flip_horizontally(image); }
};

/// Turns upside down (images without boxes).
class RandomVerticalFlip final : public Flip {
 public:
  using Params = FlipParams;
  explicit RandomVerticalFlip(const Params& params) : Flip(params.p) {}

 private:
  void mirror(cv::Mat& image) const override { cv::flip(image, image, 0); }
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomHorizontalFlip, "RandomHorizontalFlip");
SGTRAIN_REGISTER(Transform, RandomVerticalFlip, "RandomVerticalFlip");
}  // namespace sgtrain::data
