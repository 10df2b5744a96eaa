#include "data/sampler.h"

namespace sgtrain::data {
namespace {

/// Every image once, in random order. With `num_samples` the epoch has that many: several shuffles
/// one after the other (so that no image is seen twice before all were seen once), or independent
/// draws with `replacement`.
class RandomSampler final : public Sampler {
 public:
  struct Params {
    bool replacement = false;
    std::optional<std::int64_t> num_samples;
    static Params from(core::Node& n) {
      Params p{.replacement = n.get_or("replacement", false),
               .num_samples = n.find<std::int64_t>("num_samples")};
      if (p.num_samples && (*p.num_samples < 1 || *p.num_samples > 1'000'000'000)) {
        n.problem("num_samples", "must be in [1, 1000000000]");
      }
      return p;
    }
  };
  explicit RandomSampler(const Params& params) : p_(params) {}

  std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t seed, std::int64_t epoch,
                                  int /*shards*/) const override {
    const std::int64_t size = dataset.size();
    const std::int64_t wanted = p_.num_samples.value_or(size);
    if (!p_.replacement || size == 0) return shuffled_rounds(size, wanted, seed, epoch);
    core::Random random{seed, static_cast<std::uint64_t>(epoch)};
    std::vector<std::int64_t> out(static_cast<std::size_t>(wanted));
    for (std::int64_t& index : out) index = random.below(size);
    return out;
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Sampler, RandomSampler, "RandomSampler");
}  // namespace sgtrain::data
