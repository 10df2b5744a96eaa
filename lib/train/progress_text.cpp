#include "train/progress_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/device.h"

namespace sgtrain::train {

std::string progress_text(const Run& run, const TrainState& state, int batches,
                          double seconds_per_batch) {
  std::string losses;
  const auto names = run.loss->component_names();
  for (std::size_t i = 0; i < state.loss_sums.size() && i < names.size(); ++i) {
    losses += fmt::format(", {}={:.4g}", names[i], state.loss_sums[i] / state.loss_weight);
  }
  const int left = static_cast<int>(seconds_per_batch * (batches - state.batch));
  const double images =
      static_cast<double>(run.train_loader->params().batch_size) * run.comm->world_size();
  return fmt::format("{:3}% {}/{} [{:02}:{:02} left, {:.1f} images/s{}, mem={:.2f} GB]",
                     100 * state.batch / batches, state.batch, batches, left / 60, left % 60,
                     images / seconds_per_batch, losses,
                     static_cast<double>(tensor::memory_in_use(run.input.device)) / 1e9);
}

std::string epoch_text(const Run& run, const TrainState& state, const EpochSeconds& seconds) {
  const double batches = std::max(1, state.batch);
  return fmt::format(
      "epoch {}: {:.1f} s, {:.1f} images/s; per step {:.1f} ms, {:.1f} ms waiting for data; "
      "loader: {}",
      state.epoch, seconds.all,
      static_cast<double>(state.images) * run.comm->world_size() / std::max(seconds.all, 1e-9),
      1e3 * (seconds.steps + seconds.data) / batches, 1e3 * seconds.data / batches,
      run.train_loader->stats().text());
}

}  // namespace sgtrain::train
