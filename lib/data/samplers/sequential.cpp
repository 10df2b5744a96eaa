#include <numeric>

#include "data/sampler.h"

namespace sgtrain::data {
namespace {

/// Every image once, in the data set's order.
class SequentialSampler final : public Sampler {
 public:
  std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t /*seed*/,
                                  std::int64_t /*epoch*/, int /*shards*/) const override {
    std::vector<std::int64_t> out(static_cast<std::size_t>(dataset.size()));
    std::iota(out.begin(), out.end(), std::int64_t{0});
    return out;
  }
};

}  // namespace
SGTRAIN_REGISTER(Sampler, SequentialSampler, "SequentialSampler");
}  // namespace sgtrain::data
