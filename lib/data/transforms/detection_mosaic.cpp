#include <algorithm>
#include <array>
#include <atomic>

#include "data/boxes.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Four samples on one canvas of twice the input size, meeting at a random centre (Bochkovskiy et
/// al. 2020, YOLOv4). Each is scaled, aspect kept, to fit the input size.
class DetectionMosaic final : public Transform {
 public:
  struct Params {
    cv::Size input_dim;
    double prob = 1.0;
    bool enable_mosaic = true;
    cv::Scalar border_value;

    static Params from(core::Node& n) {
      Params p;
      p.input_dim = get_size(n, "input_dim");
      p.prob = n.get_or("prob", 1.0).in(0.0, 1.0);
      p.enable_mosaic = n.get_or("enable_mosaic", true);
      p.border_value = get_color_or(n, "border_value", 114);
      return p;
    }
  };
  explicit DetectionMosaic(const Params& params) : p_(params), enabled_(params.enable_mosaic) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (!enabled_ || !ctx.random.chance(p_.prob)) return;
    const cv::Size dim = p_.input_dim;
    const cv::Point center(static_cast<int>(ctx.random.uniform(0.5, 1.5) * dim.width),
                           static_cast<int>(ctx.random.uniform(0.5, 1.5) * dim.height));
    cv::Mat canvas = ctx.result(dim * 2);
    canvas.setTo(p_.border_value);
    std::vector<Box> boxes;
    paste(sample.image, sample.boxes, 0, center, canvas, boxes, false);
    for (int tile = 1; tile < 4; ++tile) {
      Sample other = ctx.load_other(/*with_objects=*/false);
      paste(other.image, other.boxes, tile, center, canvas, boxes, ctx.other_is_reversed());
    }
    sample.image = canvas;
    sample.boxes = std::move(boxes);
    clip_boxes(sample.boxes, canvas.size());
  }

  void close() override { enabled_ = false; }

 private:
  /// Tiles: 0 above left of the centre, 1 above right, 2 below left, 3 below right. The corner of
  /// the image that faces the centre lies at the centre; what leaves the canvas is cut off.
  void paste(const cv::Mat& image, std::vector<Box>& image_boxes, int tile, cv::Point center,
             cv::Mat& canvas, std::vector<Box>& boxes, bool reversed) const {
    const double scale = std::min(static_cast<double>(p_.input_dim.height) / image.rows,
                                  static_cast<double>(p_.input_dim.width) / image.cols);
    const cv::Size size(std::max(1, static_cast<int>(image.cols * scale)),
                        std::max(1, static_cast<int>(image.rows * scale)));
    const cv::Point corner(tile % 2 == 0 ? center.x - size.width : center.x,
                           tile / 2 == 0 ? center.y - size.height : center.y);
    const cv::Rect visible = cv::Rect(corner, size) & cv::Rect({0, 0}, canvas.size());
    if (!visible.empty()) {
      cv::Mat target = canvas(visible);
      resize_linear(image, size, visible - corner, target);
      if (reversed) swap_red_blue(target);
    }
    scale_boxes(image_boxes, static_cast<float>(scale), static_cast<float>(scale));
    shift_boxes(image_boxes, static_cast<float>(corner.x), static_cast<float>(corner.y));
    boxes.insert(boxes.end(), image_boxes.begin(), image_boxes.end());
  }

  Params p_;
  std::atomic<bool> enabled_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionMosaic, "DetectionMosaic");
}  // namespace sgtrain::data
