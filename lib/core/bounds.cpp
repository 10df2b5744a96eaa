#include "core/bounds.h"

#include <cmath>
#include <cstdint>

#include "core/text.h"

namespace sgtrain::core {

std::string plain_number(double value) {
  constexpr double kExact = 9e15;
  if (std::nearbyint(value) == value && std::abs(value) < kExact)
    return std::to_string(static_cast<std::int64_t>(value));
  return number_text(value);
}

std::string bounds_text(double low, double high) {
  if (std::isinf(low)) return "at most " + plain_number(high);
  if (std::isinf(high)) return "at least " + plain_number(low);
  return "in [" + plain_number(low) + ", " + plain_number(high) + "]";
}

}  // namespace sgtrain::core
