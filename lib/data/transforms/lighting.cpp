#include <array>

#include "data/transform.h"

namespace sgtrain::data {
namespace {

/// Colour noise along the principal axes of ImageNet's pixels, Krizhevsky et al. 2012. Values are
/// those where the transform stands (behind ToTensor: 0..1), rounded to bytes.
class Lighting final : public Transform {
 public:
  struct Params {
    double alphastd = 0.0;
    std::vector<double> eigval;
    std::vector<std::vector<double>> eigvec;
    static Params from(core::Node& n) {
      Params p;
      p.alphastd = n.get<double>("alphastd").min(0.0);
      p.eigval = n.get_or("eigval", std::vector<double>{0.2175, 0.0188, 0.0045});
      p.eigvec = n.get_or("eigvec", std::vector<std::vector<double>>{{-0.5675, 0.7192, 0.4009},
                                                                     {-0.5808, -0.0045, -0.8140},
                                                                     {-0.5836, -0.6948, 0.4203}});
      const bool square = p.eigvec.size() == 3 && p.eigvec[0].size() == 3 &&
                          p.eigvec[1].size() == 3 && p.eigvec[2].size() == 3;
      if (p.eigval.size() != 3 || !square) n.problem("eigvec", "needs 3 values and 3 vectors of 3");
      return p;
    }
  };
  explicit Lighting(const Params& params) : p_(params) {}

  void apply(Sample& sample, Context& ctx) const override {
    if (p_.alphastd == 0.0) return;
    std::array<double, 3> alpha{};
    for (double& a : alpha) a = ctx.random.normal(0.0, p_.alphastd);
    cv::Mat table(1, 256, CV_8UC3);
    for (std::size_t c = 0; c < 3; ++c) {
      double add = 0.0;
      for (std::size_t j = 0; j < 3; ++j) add += p_.eigvec[c][j] * alpha[j] * p_.eigval[j];
      add *= ctx.normalisation.std[c];
      for (int v = 0; v < 256; ++v) {
        table.at<cv::Vec3b>(0, v)[static_cast<int>(c)] = cv::saturate_cast<uchar>(v + add);
      }
    }
    ctx.own(sample.image);
    cv::LUT(sample.image, table, sample.image);
  }
  bool keeps_size() const override { return true; }
  bool after_normalisation() const override { return true; }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Transform, Lighting, "Lighting");
}  // namespace sgtrain::data
