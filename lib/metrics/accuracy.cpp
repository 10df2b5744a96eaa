#include "metrics/counted_accuracy.h"

namespace sgtrain::metrics {
namespace {

class Accuracy final : public CountedAccuracy {
 public:
  Accuracy() : CountedAccuracy("Accuracy", 1) {}
};

}  // namespace
SGTRAIN_REGISTER(Metric, Accuracy, "Accuracy");
}  // namespace sgtrain::metrics
