#include <cmath>
#include <numeric>

#include "data/sampler.h"

namespace sgtrain::data {
namespace {

/// Repeated augmentation, Hoffer et al. 2020: every image `num_repeats` times in a row, so that
/// different processes see it augmented differently; the epoch is cut back to about the data set's
/// size.
class RepeatAugSampler final : public Sampler {
 public:
  struct Params {
    bool shuffle = true;
    double num_repeats = 3.0;
    std::int64_t selected_round = 256;  // 0: no rounding
    double selected_ratio = 0.0;        // images per process = size / ratio; 0: the processes
    static Params from(core::Node& n) {
      n.find<int>("num_replicas");  // the run knows them
      n.find<int>("rank");
      return {.shuffle = n.get_or("shuffle", true),
              .num_repeats = n.get_or("num_repeats", 3.0).in(1.0, 1000.0),
              .selected_round = n.get_or("selected_round", std::int64_t{256}).min(0),
              .selected_ratio = n.get_or("selected_ratio", 0.0).min(0.0)};
    }
  };
  explicit RepeatAugSampler(const Params& params) : p_(params) {}

  std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t seed, std::int64_t epoch,
                                  int shards) const override {
    const std::int64_t size = dataset.size();
    std::vector<std::int64_t> once(static_cast<std::size_t>(size));
    std::iota(once.begin(), once.end(), std::int64_t{0});
    if (p_.shuffle) once = shuffled(size, seed, epoch);

    const double ratio = p_.selected_ratio > 0.0 ? p_.selected_ratio : shards;
    const double selected =
        p_.selected_round > 0 && size >= p_.selected_round
            ? std::floor(static_cast<double>(size / p_.selected_round * p_.selected_round) / ratio)
            : std::ceil(static_cast<double>(size) / ratio);
    const auto repeated =
        static_cast<std::int64_t>(std::ceil(p_.num_repeats * static_cast<double>(size)));
    const std::int64_t wanted = std::min(repeated, static_cast<std::int64_t>(selected) * shards);
    std::vector<std::int64_t> out;
    out.reserve(static_cast<std::size_t>(wanted));
    for (std::int64_t i = 0; i < wanted; ++i) {
      out.push_back(once[static_cast<std::size_t>(static_cast<double>(i) / p_.num_repeats)]);
    }
    return out;
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Sampler, RepeatAugSampler, "RepeatAugSampler");
}  // namespace sgtrain::data
