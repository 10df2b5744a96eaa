// The weights of the best epochs, and their mean (average_best_models): SuperGradients' ten slots,
// each with an epoch's weights as a file of its own, so that a validation writes one epoch's
// weights and not ten.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tensor/module.h"
#include "train/state.h"

namespace sgtrain::train {

constexpr std::size_t kMostAveraged = 10;

struct SlotChange {
  bool added = false;
  std::optional<int> dropped;  // the epoch that made room
};

/// Offers an epoch to the best `most` epochs. A free slot is taken; else the worst gives way when
/// the new value is strictly better. Values that are not finite never enter.
SlotChange offer_epoch(std::vector<ScoredEpoch>& slots, const ScoredEpoch& candidate, bool greater,
                       std::size_t most);

/// Mean over files of {"net": weights}, entry by entry in order of the files, at the memory of two
/// of them. Entries that count (num_batches_tracked) are the last file's.
/// @throws core::Error
tensor::StateDict average_weights(const std::vector<std::filesystem::path>& files);

}  // namespace sgtrain::train
