// Steps that change values or the channel order only: folded.
#include "data/processing.h"
#include "data/read_params.h"

namespace sgtrain::data {
namespace {

class Folded : public Processing {
 public:
  cv::Mat apply(const cv::Mat& image, bool /*reversed*/, const Mapping& /*mapping*/) const final {
    return image;
  }
  bool resizes_image() const final { return false; }
};

/// RGB to BGR or back.
class ReverseImageChannels final : public Folded {
 public:
  struct Params {
    static Params from(core::Node& /*n*/) { return {}; }
  };
  explicit ReverseImageChannels(const Params& /*params*/) {}
  bool fold(Normalisation& normalisation, bool& reversed) const override {
    std::swap(normalisation.mean[0], normalisation.mean[2]);
    std::swap(normalisation.std[0], normalisation.std[2]);
    reversed = !reversed;
    return true;
  }
};

/// value / max_value.
class StandardizeImage final : public Folded {
 public:
  struct Params {
    double max_value = 255.0;
    static Params from(core::Node& n) {
      return {.max_value = n.get_or("max_value", 255.0).above(0.0)};
    }
  };
  explicit StandardizeImage(const Params& params) : p_(params) {}
  bool fold(Normalisation& normalisation, bool& /*reversed*/) const override {
    normalisation.divide(p_.max_value);
    return true;
  }

 private:
  Params p_;
};

/// (value - mean) / std for each channel, in the order that the list has made.
class NormalizeImage final : public Folded {
 public:
  struct Params {
    std::vector<double> mean, std;
    static Params from(core::Node& n) {
      Params p{.mean = get_channels(n, "mean"), .std = get_channels(n, "std")};
      for (double& s : p.std) {
        if (n.describing() || s > 0.0) continue;
        n.problem("std", "must be above 0");
        s = 1.0;
      }
      return p;
    }
  };
  explicit NormalizeImage(const Params& params) : p_(params) {}
  bool fold(Normalisation& normalisation, bool& /*reversed*/) const override {
    normalisation.normalise(p_.mean, p_.std);
    return true;
  }

 private:
  Params p_;
};

/// HWC to CHW: what the device does anyway.
class ImagePermute final : public Folded {
 public:
  struct Params {
    static Params from(core::Node& n) {
      const std::vector<int> order = n.get_or("permutation", std::vector<int>{2, 0, 1});
      if (order != std::vector<int>{2, 0, 1}) n.problem("permutation", "must be [2, 0, 1]");
      return {};
    }
  };
  explicit ImagePermute(const Params& /*params*/) {}
  bool fold(Normalisation& /*normalisation*/, bool& /*reversed*/) const override { return true; }
};

}  // namespace
SGTRAIN_REGISTER(Processing, ReverseImageChannels, "ReverseImageChannels",
                 "KeypointsReverseImageChannels");
SGTRAIN_REGISTER(Processing, StandardizeImage, "StandardizeImage");
SGTRAIN_REGISTER(Processing, NormalizeImage, "NormalizeImage");
SGTRAIN_REGISTER(Processing, ImagePermute, "ImagePermute");
}  // namespace sgtrain::data
