#include <atomic>

#include "data/boxes.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Blends the sample half and half with another one that has objects, Zhang et al. 2018 in YOLOX's
/// form: the other image is flipped now and then, resized (aspect kept) to the top left of a
/// canvas, the canvas scaled at random, and a random window of it (black where it ends) laid over
/// the sample. Boxes of both stay.
class DetectionMixup final : public Transform {
 public:
  struct Params {
    std::optional<cv::Size> input_dim;  // canvas; none: the sample's own size
    std::pair<double, double> mixup_scale;
    double prob = 1.0;
    bool enable_mixup = true;
    double flip_prob = 0.5;
    cv::Scalar border_value;

    static Params from(core::Node& n) {
      Params p;
      p.input_dim = find_size(n, "input_dim");
      p.mixup_scale = get_range_or(n, "mixup_scale", 1.0, {0.5, 1.5});
      if (p.mixup_scale.first <= 0.0) n.problem("mixup_scale", "scales must be above 0");
      p.prob = n.get_or("prob", 1.0).in(0.0, 1.0);
      p.enable_mixup = n.get_or("enable_mixup", true);
      p.flip_prob = n.get_or("flip_prob", 0.5).in(0.0, 1.0);
      p.border_value = get_color_or(n, "border_value", 114);
      return p;
    }
  };
  explicit DetectionMixup(const Params& params) : p_(params), enabled_(params.enable_mixup) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!enabled_ || !ctx.random.chance(p_.prob)) return;
    Sample other = ctx.load_other(/*with_objects=*/true);
    if (ctx.random.chance(p_.flip_prob)) {
      ctx.own(other.image);
      flip_horizontally(other.image);
      flip_boxes_horizontally(other.boxes, other.image.cols);
    }
    const cv::Size canvas = p_.input_dim.value_or(sample.image.size());
    double ratio = std::min(static_cast<double>(canvas.height) / other.image.rows,
                            static_cast<double>(canvas.width) / other.image.cols);
    const cv::Mat image = fit(other.image, canvas, ratio, ctx);
    const double jitter = p_.mixup_scale.first == p_.mixup_scale.second
                              ? p_.mixup_scale.first
                              : ctx.random.uniform(p_.mixup_scale.first, p_.mixup_scale.second);
    const cv::Size scaled(std::max(1, static_cast<int>(canvas.width * jitter)),
                          std::max(1, static_cast<int>(canvas.height * jitter)));
    ratio *= jitter;
    const cv::Size target = sample.image.size();
    const int y = offset(scaled.height, target.height, ctx.random);
    const int x = offset(scaled.width, target.width, ctx.random);

    // Only the window is scaled; beyond the canvas it is black.
    const cv::Rect window = cv::Rect({x, y}, target) & cv::Rect({0, 0}, scaled);
    cv::Mat overlay = ctx.scratch(target);
    resize_linear(image, scaled, window, overlay(cv::Rect({0, 0}, window.size())));
    if (window.width < target.width) overlay.colRange(window.width, target.width).setTo(0);
    if (window.height < target.height) overlay.rowRange(window.height, target.height).setTo(0);
    ctx.own(sample.image);
    blend_half(sample.image, overlay, ctx.other_is_reversed());

    scale_boxes(other.boxes, static_cast<float>(ratio), static_cast<float>(ratio));
    clip_boxes(other.boxes, scaled);
    shift_boxes(other.boxes, static_cast<float>(-x), static_cast<float>(-y));
    sample.boxes.insert(sample.boxes.end(), other.boxes.begin(), other.boxes.end());
    clip_boxes(sample.boxes, target);
  }

  bool keeps_size() const override { return true; }
  void close() override { enabled_ = false; }

 private:
  /// The other image on its canvas; itself when it fills it.
  cv::Mat fit(const cv::Mat& image, cv::Size canvas, double ratio, Context& ctx) const {
    const cv::Size inner(std::max(1, static_cast<int>(image.cols * ratio)),
                         std::max(1, static_cast<int>(image.rows * ratio)));
    if (inner == image.size() && inner == canvas) return image;
    cv::Mat out = ctx.scratch(canvas);
    resize_linear(image, out(cv::Rect({0, 0}, inner)));
    if (inner.width < canvas.width) out.colRange(inner.width, canvas.width).setTo(p_.border_value);
    if (inner.height < canvas.height) {
      out.rowRange(inner.height, canvas.height).setTo(p_.border_value);
    }
    return out;
  }

  /// First row (column) of the window; 0 when everything is visible.
  static int offset(int size, int window, core::Random& random) {
    return size > window ? static_cast<int>(random.below(size - window)) : 0;
  }

  Params p_;
  std::atomic<bool> enabled_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionMixup, "DetectionMixup");
}  // namespace sgtrain::data
