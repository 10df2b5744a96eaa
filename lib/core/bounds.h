// Bounds of numbers, as messages and `sgtrain list` write them.
#pragma once

#include <string>

namespace sgtrain::core {

/// As number_text(), but whole numbers in full: 1000000, not 1e+06.
std::string plain_number(double value);

/// "in [1, 10]"; with an infinite end "at least 1" or "at most 10".
std::string bounds_text(double low, double high);

}  // namespace sgtrain::core
