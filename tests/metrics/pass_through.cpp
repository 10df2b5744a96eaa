// A post-prediction callback for tests: the outputs are the detections, one entry for each image.
#include "postprocess/postprocess.h"

namespace sgtrain::postprocess {
namespace {

class PassThrough final : public DetectionPostprocess {
 public:
  std::vector<Detections> operator()(const tensor::ModelOutput& output) const override {
    std::vector<Detections> out;
    for (const auto& [name, detections] : output.items()) out.push_back(detections);
    return out;
  }
  void set(const Thresholds&) override {}
};

}  // namespace
SGTRAIN_REGISTER(DetectionPostprocess, PassThrough, "PassThrough");
}  // namespace sgtrain::postprocess
