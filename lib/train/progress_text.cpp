#include "train/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/log.h"
#include "tensor/device.h"

namespace sgtrain::train {
namespace {

std::string epoch_text(const Run& run, const TrainState& state, const EpochSeconds& seconds) {
  const double share = static_cast<double>(seconds.batches) / std::max(1, state.batch);
  const double images = static_cast<double>(state.images) * run.comm->world_size() * share;
  return fmt::format(
      "epoch {}: {:.1f} s, {:.1f} images/s; per step {:.1f} ms, {:.1f} ms waiting for data; "
      "loader: {}",
      state.epoch, seconds.all, images / std::max(seconds.all, 1e-9), 1e3 * seconds.iteration(),
      1e3 * seconds.waiting(), run.train_loader->stats().text());
}

}  // namespace

std::string traffic_text(const dist::Reducer::Traffic& traffic) {
  if (traffic.steps == 0) return {};
  const double steps = static_cast<double>(traffic.steps);
  return fmt::format("gradients: {:.1f} ms of communication a step, {:.0f} % of it during backward",
                     1e3 * traffic.seconds / steps, 100.0 * traffic.hidden_share());
}

std::string progress_text(const Run& run, const TrainState& state, int batches,
                          const EpochSeconds& seconds) {
  std::string losses;
  const auto names = run.loss->component_names();
  for (std::size_t i = 0; i < state.loss_sums.size() && i < names.size(); ++i) {
    losses += fmt::format(", {}={:.4g}", names[i], state.loss_sums[i] / state.loss_weight);
  }
  const double per_batch = seconds.all / std::max(1, seconds.batches);
  const int left = static_cast<int>(per_batch * (batches - state.batch));
  const double images =
      static_cast<double>(run.train_loader->params().batch_size) * run.comm->world_size();
  return fmt::format(
      "{:3}% {}/{} [{:02}:{:02} left, {:.1f} images/s, iter_time={:.3f}, data_time={:.3f}{}, "
      "mem={:.2f} GB]",
      100 * state.batch / batches, state.batch, batches, left / 60, left % 60,
      images / std::max(per_batch, 1e-9), seconds.iteration(), seconds.waiting(), losses,
      static_cast<double>(tensor::memory_in_use(run.input.device)) / 1e9);
}

void show_epoch(const Run& run, const TrainState& state, const EpochSummary& summary,
                const EpochSeconds& seconds, const loggers::Scalars& scalars) {
  std::vector<std::pair<std::string, std::string>> fields{{"epoch", std::to_string(state.epoch)}};
  for (const auto& [name, value] : scalars) fields.emplace_back(name, fmt::format("{}", value));
  if (core::log::enabled(core::log::Level::kInfo)) {
    core::log::write_fields(core::log::Level::kInfo,
                            summary.render(state.epoch, core::log::color_stderr()), fields);
  }
  core::log::info("{}", epoch_text(run, state, seconds));
}

}  // namespace sgtrain::train
