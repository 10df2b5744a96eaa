// Transforms that only map pixel values affinely: folded into the device-side normalisation.
#include "data/read_params.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Base of the folded ones: apply() is never called.
class Folded : public Transform {
 public:
  void apply(Sample& /*sample*/, Context& /*ctx*/) const final {}
  bool keeps_size() const final { return true; }
};

/// value / max_value.
class Divide : public Folded {
 public:
  explicit Divide(double max_value) : max_value_(max_value) {}
  bool fold(Normalisation& normalisation) const override {
    normalisation.divide(max_value_);
    return true;
  }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{
        processing_entry("StandardizeImage", {{"max_value", core::Tree::of(max_value_)}})};
  }

 private:
  double max_value_;
};

class DetectionStandardize final : public Divide {
 public:
  struct Params {
    double max_value = 255.0;
    static Params from(core::Node& n) {
      return {.max_value = n.get_or("max_value", 255.0).above(0.0)};
    }
  };
  explicit DetectionStandardize(const Params& params) : Divide(params.max_value) {}
};

/// The classification spelling.
class Standardize final : public Divide {
 public:
  struct Params {
    double max_val = 255.0;
    static Params from(core::Node& n) { return {.max_val = n.get_or("max_val", 255.0).above(0.0)}; }
  };
  explicit Standardize(const Params& params) : Divide(params.max_val) {}
};

/// Bytes to 0..1, CHW.
class ToTensor final : public Divide {
 public:
  struct Params {
    static Params from(core::Node& /*n*/) { return {}; }
  };
  explicit ToTensor(const Params& /*params*/) : Divide(255.0) {}
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{
        processing_entry("StandardizeImage", {{"max_value", core::Tree::of(255.0)}}),
        processing_entry("ImagePermute")};
  }
};

/// (value - mean) / std for each channel.
class Normalize final : public Folded {
 public:
  struct Params {
    std::vector<double> mean, std;
    static Params from(core::Node& n) {
      Params p{.mean = get_channels(n, "mean"), .std = get_channels(n, "std")};
      n.get_or("inplace", false);
      for (double& s : p.std) {
        if (n.describing() || s > 0.0) continue;
        n.problem("std", "must be above 0");
        s = 1.0;
      }
      return p;
    }
  };
  explicit Normalize(const Params& params) : p_(params) {}
  bool fold(Normalisation& normalisation) const override {
    normalisation.normalise(p_.mean, p_.std);
    return true;
  }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{
        processing_entry("NormalizeImage", {{"mean", tree_of(std::span<const double>(p_.mean))},
                                            {"std", tree_of(std::span<const double>(p_.std))}})};
  }

 private:
  Params p_;
};

/// HWC to CHW: what the device does anyway.
class DetectionImagePermute final : public Folded {
 public:
  struct Params {
    static Params from(core::Node& n) {
      const std::vector<int> dims = n.get_or("dims", std::vector<int>{2, 0, 1});
      if (dims != std::vector<int>{2, 0, 1}) n.problem("dims", "must be [2, 0, 1]");
      return {};
    }
  };
  explicit DetectionImagePermute(const Params& /*params*/) {}
  bool fold(Normalisation& /*normalisation*/) const override { return true; }
  std::optional<ProcessingList> processing() const override {
    return ProcessingList{processing_entry("ImagePermute")};
  }
};

}  // namespace
SGTRAIN_REGISTER(Transform, DetectionStandardize, "DetectionStandardize");
SGTRAIN_REGISTER(Transform, Standardize, "Standardize");
SGTRAIN_REGISTER(Transform, ToTensor, "ToTensor", "PILToTensor");
SGTRAIN_REGISTER(Transform, Normalize, "Normalize", "DetectionNormalize");
SGTRAIN_REGISTER(Transform, DetectionImagePermute, "DetectionImagePermute");
}  // namespace sgtrain::data
