#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "data/sampler.h"

namespace sgtrain::data {
namespace {

/// Draws images with replacement, those with rare classes more often: repeat factors of Gupta et
/// al. 2019 (LVIS): r(c) = max(1, (t / f(c))^a) for a class in a share f(c) of the images, an image
/// takes the largest factor of its classes; images without annotations count once.
class ClassBalancedSampler final : public Sampler {
 public:
  struct Params {
    std::optional<double> oversample_threshold;  // t; none: the median of f
    double oversample_aggressiveness = 0.5;      // a
    std::optional<std::int64_t> num_samples;
    std::vector<double> factors;  // from a file, instead of counting
    static Params from(core::Node& n) {
      Params p;
      p.oversample_threshold = n.find<double>("oversample_threshold");
      if (p.oversample_threshold &&
          !(*p.oversample_threshold >= 0.0 && *p.oversample_threshold <= 1.0)) {
        n.problem("oversample_threshold", "must be in [0, 1]");
      }
      p.oversample_aggressiveness = n.get_or("oversample_aggressiveness", 0.5).in(0.0, 10.0);
      p.num_samples = n.find<std::int64_t>("num_samples");
      if (p.num_samples && (*p.num_samples < 1 || *p.num_samples > 1'000'000'000)) {
        n.problem("num_samples", "must be in [1, 1000000000]");
      }
      if (const auto file = n.find<std::string>("precomputed_factors_file")) {
        p.factors = read_factors(*file, n);
      }
      return p;
    }
  };
  explicit ClassBalancedSampler(const Params& params) : p_(params) {}

  std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t seed, std::int64_t epoch,
                                  int /*shards*/) const override {
    std::vector<double> sums = p_.factors.empty() ? factors(dataset) : p_.factors;
    if (static_cast<std::int64_t>(sums.size()) != dataset.size()) {
      throw core::InputError("precomputed_factors_file holds " + std::to_string(sums.size()) +
                             " factors, but the data set has " + std::to_string(dataset.size()) +
                             " images");
    }
    for (std::size_t i = 1; i < sums.size(); ++i) sums[i] += sums[i - 1];
    core::Random random{seed, static_cast<std::uint64_t>(epoch), 0x42414C};
    std::vector<std::int64_t> out(
        static_cast<std::size_t>(p_.num_samples.value_or(dataset.size())));
    for (std::int64_t& index : out) {
      const auto at = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sums.back());
      index = std::min<std::int64_t>(at - sums.begin(), dataset.size() - 1);
    }
    return out;
  }

 private:
  static std::vector<double> read_factors(const std::string& file, core::Node& n) {
    std::vector<double> out;
    try {
      std::ifstream in(file);
      for (const auto& value : nlohmann::json::parse(in)) {
        out.push_back(value.is_string() ? std::stod(value.get<std::string>())
                                        : value.get<double>());
        if (!(out.back() > 0.0)) throw std::invalid_argument("factor");
      }
    } catch (const std::exception&) {
      n.problem("precomputed_factors_file", "'" + file + "' is not a JSON list of numbers above 0");
    }
    return out;
  }

  static std::set<std::int32_t> classes(const Annotation& annotation) {
    std::set<std::int32_t> out;
    if (annotation.label >= 0) out.insert(annotation.label);
    for (const Box& box : annotation.boxes) {
      if (!box.crowd) out.insert(box.label);
    }
    return out;
  }

  std::vector<double> factors(const Dataset& dataset) const {
    std::vector<double> share(
        static_cast<std::size_t>(std::max<std::int64_t>(dataset.num_classes(), 1)));
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      for (const std::int32_t c : classes(dataset.annotation(i)))
        share.at(static_cast<std::size_t>(c)) += 1.0;
    }
    for (double& f : share) f /= static_cast<double>(dataset.size());
    const double threshold = p_.oversample_threshold.value_or(median(share));
    std::vector<double> out(static_cast<std::size_t>(dataset.size()), 1.0);
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      for (const std::int32_t c : classes(dataset.annotation(i))) {
        const double f = share[static_cast<std::size_t>(c)];
        if (f > threshold) continue;
        double& factor = out[static_cast<std::size_t>(i)];
        factor = std::max(factor, std::pow(threshold / f, p_.oversample_aggressiveness));
      }
    }
    return out;
  }

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Sampler, ClassBalancedSampler, "ClassBalancedSampler");
}  // namespace sgtrain::data
