// Data sets that stand before another one: a part of its samples, or its pictures kept in memory.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace sgtrain::data {

/// Every sample once `fraction` is 1; else an even selection of them (at least one), so that data
/// sorted by class keep all classes. `fraction` in (0, 1].
std::unique_ptr<Dataset> part_of(std::unique_ptr<Dataset> dataset, double fraction);

/// Keeps decoded pictures after their first use. Thread-safe.
/// @throws core::InputError when all pictures, as large as the first, would take more than `budget`
/// bytes of memory
std::unique_ptr<Dataset> kept_in_memory(std::unique_ptr<Dataset> dataset, std::size_t budget);

}  // namespace sgtrain::data
