#include <numeric>

#include "data/sampler.h"

namespace sgtrain::data {
namespace {

/// torch's name for what every sampler here does: the epoch is shared among processes.
class DistributedSampler final : public Sampler {
 public:
  struct Params {
    bool shuffle = true;
    std::int64_t seed = 0;   // added to the run's seed
    bool drop_last = false;  // cut the epoch to a multiple of the processes instead of filling up
    static Params from(core::Node& n) {
      n.find<int>("num_replicas");  // the run knows them
      n.find<int>("rank");
      return {.shuffle = n.get_or("shuffle", true),
              .seed = n.get_or("seed", std::int64_t{0}),
              .drop_last = n.get_or("drop_last", false)};
    }
  };
  explicit DistributedSampler(const Params& params) : p_(params) {}

  std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t seed, std::int64_t epoch,
                                  int shards) const override {
    std::vector<std::int64_t> out(static_cast<std::size_t>(dataset.size()));
    std::iota(out.begin(), out.end(), std::int64_t{0});
    if (p_.shuffle) {
      out = shuffled(dataset.size(), seed + static_cast<std::uint64_t>(p_.seed), epoch);
    }
    if (p_.drop_last)
      out.resize(out.size() / static_cast<std::size_t>(shards) * static_cast<std::size_t>(shards));
    return out;
  }

 private:
  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Sampler, DistributedSampler, "DistributedSampler", "InfiniteSampler");
}  // namespace sgtrain::data
