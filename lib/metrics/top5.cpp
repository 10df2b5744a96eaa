#include "metrics/counted_accuracy.h"

namespace sgtrain::metrics {
namespace {

class Top5 final : public CountedAccuracy {
 public:
  Top5() : CountedAccuracy("Top5", 5) {}
};

}  // namespace
SGTRAIN_REGISTER(Metric, Top5, "Top5");
}  // namespace sgtrain::metrics
