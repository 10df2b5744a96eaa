#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "loader/loader.h"

namespace sgtrain::loader {
namespace {

constexpr std::array<const char*, 4> kStageNames{"read", "decode", "augment", "collate"};
/// Below this share of the time, waiting for the loader is no matter.
constexpr double kNegligibleWait = 0.05;

}  // namespace

std::string LoaderStats::text() const {
  static_assert(kStageNames.size() == static_cast<std::size_t>(core::Stage::kCount));
  if (images == 0 || wall <= 0) return "no images loaded";
  const double count = static_cast<double>(images);
  std::string out =
      fmt::format("{:.0f} images/s; per image:", count / static_cast<double>(wall) * 1e9);
  std::size_t slowest = 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    out += fmt::format("{} {} {:.2f}", i > 0 ? "," : "", kStageNames[i],
                       static_cast<double>(stages[i]) * 1e-6 / count);
    if (stages[i] > stages[slowest]) slowest = i;
    total += stages[i];
  }
  out += threads > 0 ? fmt::format(" ms on {} thread{}", threads, threads > 1 ? "s" : "")
                     : std::string(" ms in the main thread");
  const double share = static_cast<double>(wait) / static_cast<double>(wall);
  out += fmt::format("; the run waited {:.0f} % of the time", 100.0 * share);
  if (share >= kNegligibleWait && total > 0) {
    out += fmt::format(": {} is the limit ({:.0f} % of loading)", kStageNames[slowest],
                       100.0 * static_cast<double>(stages[slowest]) / static_cast<double>(total));
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    if (threads < cores)
      out += fmt::format("; raise num_workers (this machine has {} cores)", cores);
  }
  if (skipped > 0)
    out += fmt::format("; {} unreadable image{} skipped", skipped, skipped > 1 ? "s" : "");
  return out;
}

}  // namespace sgtrain::loader
