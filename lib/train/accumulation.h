// Which micro-batches one step of the optimizer takes together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sgtrain::train {

struct Accumulation {
  int count = 1;  // batch_accumulate
  /// The reference's sum: micro-batches left over at the end of an epoch count towards the next
  /// epoch's first step. Otherwise a mean, which takes its last step over the rest.
  bool sums = true;

  /// Whether a step follows this micro-batch.
  /// @param batch, global_step 0-based, in its epoch and in the run
  bool ends(int batch, std::int64_t global_step, int batches_per_epoch) const {
    if (sums) return (global_step + 1) % count == 0;
    return (batch + 1) % count == 0 || batch + 1 == batches_per_epoch;
  }

  /// Weight of this micro-batch's loss in its step.
  double share(int batch, int batches_per_epoch) const {
    if (sums) return 1.0;
    return 1.0 / std::min(count, batches_per_epoch - batch / count * count);
  }

  /// Whether gradients wait for a step of the next epoch after `global_step` micro-batches.
  bool open(std::int64_t global_step) const { return sums && global_step % count != 0; }
};

}  // namespace sgtrain::train
