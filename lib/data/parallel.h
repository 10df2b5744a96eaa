// Work on index ranges by a few threads; results are kept in order by the caller's chunk number.
#pragma once

#include <cstddef>
#include <functional>

namespace sgtrain::data {

/// Splits 0..count-1 into `parts` consecutive ranges and calls work(part, begin, end) for each, in
/// threads when there are several. The exception of the lowest part is thrown after all ended.
void parallel_ranges(std::size_t count, std::size_t parts,
                     const std::function<void(std::size_t, std::size_t, std::size_t)>& work);

/// A sensible number of parts: one for each processor (at most 16) when there are at least
/// `grain` items for each.
std::size_t part_count(std::size_t count, std::size_t grain);

}  // namespace sgtrain::data
