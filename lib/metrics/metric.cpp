#include "metrics/metric.h"

namespace sgtrain::metrics {

Metric::Registry& Metric::registry() {
  static Registry registry("metric");
  return registry;
}

}  // namespace sgtrain::metrics
