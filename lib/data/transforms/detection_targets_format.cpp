#include <algorithm>

#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

std::vector<std::string> formats() {
  std::vector<std::string> out;
  for (const std::string boxes : {"XYXY", "XYWH", "CXCYWH"}) {
    for (const std::string scale : {"", "NORMALIZED_"}) {
      out.push_back("LABEL_" + scale + boxes);
      out.push_back(scale + boxes + "_LABEL");
    }
  }
  return out;
}

/// Drops boxes whose shorter side is not above `min_bbox_edge_size` pixels. Formats are accepted
/// for the recipes' sake: batches always carry (class, cx, cy, w, h) in pixels, and who needs
/// normalised values divides.
class DetectionTargetsFormatTransform final : public Transform {
 public:
  struct Params {
    double min_bbox_edge_size = 1.0;  // pixels
    static Params from(core::Node& n) {
      find_size(n, "input_dim");
      n.get_or("input_format", "XYXY_LABEL").one_of({"XYXY_LABEL"});
      n.get_or("output_format", "LABEL_CXCYWH").one_of(formats());
      n.find<int>("max_targets");  // without effect since SuperGradients 3.1
      return {.min_bbox_edge_size = n.get_or("min_bbox_edge_size", 1.0).min(0.0)};
    }
  };
  explicit DetectionTargetsFormatTransform(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& /*ctx*/) const override {
    std::erase_if(sample.boxes, [this](const Box& box) {
      return !(std::min(box.width(), box.height()) > p_.min_bbox_edge_size);
    });
  }
  bool keeps_size() const override { return true; }
  bool after_normalisation() const override { return true; }
  std::optional<ProcessingList> processing() const override { return ProcessingList{}; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionTargetsFormatTransform, "DetectionTargetsFormatTransform");
}  // namespace sgtrain::data
