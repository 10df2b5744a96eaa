// torchvision's one-parameter tone changes, each done with a probability. Pillow's arithmetic.
#include "data/pillow.h"
#include "data/transform.h"

namespace sgtrain::data {
namespace {

class Tone : public Transform {
 public:
  explicit Tone(double p) : p_(p) {}
  void apply(Sample& sample, Context& ctx) const final {
    if (!ctx.random.chance(p_)) return;
    ctx.own(sample.image);
    change(sample.image);
  }
  bool keeps_size() const final { return true; }

 private:
  virtual void change(cv::Mat& image) const = 0;
  double p_;
};

struct Probability {
  double p = 0.5;
  static Probability from(core::Node& n) { return {.p = n.get_or("p", 0.5).in(0.0, 1.0)}; }
};

class RandomInvert final : public Tone {
 public:
  using Params = Probability;
  explicit RandomInvert(const Params& params) : Tone(params.p) {}

 private:
  void change(cv::Mat& image) const override { pillow::invert(image); }
};

class RandomAutocontrast final : public Tone {
 public:
  using Params = Probability;
  explicit RandomAutocontrast(const Params& params) : Tone(params.p) {}

 private:
  void change(cv::Mat& image) const override { pillow::autocontrast(image); }
};

class RandomEqualize final : public Tone {
 public:
  using Params = Probability;
  explicit RandomEqualize(const Params& params) : Tone(params.p) {}

 private:
  void change(cv::Mat& image) const override { pillow::equalize(image); }
};

class RandomPosterize final : public Tone {
 public:
  struct Params {
    int bits = 8;
    double p = 0.5;
    static Params from(core::Node& n) {
      return {.bits = n.get<int>("bits").in(0, 8), .p = n.get_or("p", 0.5).in(0.0, 1.0)};
    }
  };
  explicit RandomPosterize(const Params& params) : Tone(params.p), bits_(params.bits) {}

 private:
  void change(cv::Mat& image) const override { pillow::posterize(image, bits_); }
  int bits_;
};

class RandomSolarize final : public Tone {
 public:
  struct Params {
    double threshold = 0.0;
    double p = 0.5;
    static Params from(core::Node& n) {
      return {.threshold = n.get<double>("threshold").in(0.0, 256.0),
              .p = n.get_or("p", 0.5).in(0.0, 1.0)};
    }
  };
  explicit RandomSolarize(const Params& params)
      : Tone(params.p), threshold_(static_cast<int>(params.threshold)) {}

 private:
  void change(cv::Mat& image) const override { pillow::solarize(image, threshold_); }
  int threshold_;
};

class RandomAdjustSharpness final : public Tone {
 public:
  struct Params {
    double sharpness_factor = 1.0;
    double p = 0.5;
    static Params from(core::Node& n) {
      return {.sharpness_factor = n.get<double>("sharpness_factor").in(0.0, 100.0),
              .p = n.get_or("p", 0.5).in(0.0, 1.0)};
    }
  };
  explicit RandomAdjustSharpness(const Params& params)
      : Tone(params.p), factor_(params.sharpness_factor) {}

 private:
  void change(cv::Mat& image) const override { pillow::sharpness(image, factor_); }
  double factor_;
};

/// Luma in three equal channels.
class RandomGrayscale final : public Tone {
 public:
  struct Params {
    double p = 0.1;
    static Params from(core::Node& n) { return {.p = n.get_or("p", 0.1).in(0.0, 1.0)}; }
  };
  explicit RandomGrayscale(const Params& params) : Tone(params.p) {}

 private:
  void change(cv::Mat& image) const override { pillow::grayscale(image); }
};

}  // namespace
SGTRAIN_REGISTER(Transform, RandomInvert, "RandomInvert");
SGTRAIN_REGISTER(Transform, RandomAutocontrast, "RandomAutocontrast");
SGTRAIN_REGISTER(Transform, RandomEqualize, "RandomEqualize");
SGTRAIN_REGISTER(Transform, RandomPosterize, "RandomPosterize");
SGTRAIN_REGISTER(Transform, RandomSolarize, "RandomSolarize");
SGTRAIN_REGISTER(Transform, RandomAdjustSharpness, "RandomAdjustSharpness");
SGTRAIN_REGISTER(Transform, RandomGrayscale, "RandomGrayscale");
}  // namespace sgtrain::data
