#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Reverses the channels. The reference implementation decodes BGR for detection, so probability 1
/// (validation) gives the network RGB, and 0.5 (training) gives it either. Here only the order is
/// noted; the pipeline swaps bytes once at its end if the network is to see BGR.
class DetectionRGB2BGR final : public Transform {
 public:
  struct Params {
    double prob = 0.5;
    static Params from(core::Node& n) { return {.prob = n.get_or("prob", 0.5).in(0.0, 1.0)}; }
  };
  explicit DetectionRGB2BGR(const Params& params) : p_(params) {}

  void apply(Sample& /*sample*/, Context& ctx) const override {
    if (ctx.random.chance(p_.prob)) ctx.bgr = !ctx.bgr;
  }
  bool keeps_size() const override { return true; }

  std::optional<ProcessingList> processing() const override {
    if (p_.prob >= 1.0) return ProcessingList{processing_entry("ReverseImageChannels")};
    if (p_.prob <= 0.0) return ProcessingList{};
    return std::nullopt;
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionRGB2BGR, "DetectionRGB2BGR");
}  // namespace sgtrain::data
