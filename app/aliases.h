// What users of Ultralytics type by habit, in this program's own words.
#pragma once

#include <string>
#include <vector>

namespace sgtrain::app {

/// `yolo detect predict model=best.pth source=dir conf=0.5` becomes
/// `predict --checkpoint best.pth dir --conf 0.5`; `val model=best.pth` gets `--checkpoint` too.
/// Other words stay as they are, and so does the name of a file that is there.
/// @param commands names and aliases of all commands
/// @throws core::InputError for a key=value that `predict` does not know
std::vector<std::string> without_aliases(std::vector<std::string> words,
                                         const std::vector<std::string>& commands);

}  // namespace sgtrain::app
