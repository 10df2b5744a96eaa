// Names as users type them (fuzzy equality, the nearest right name), and small text tools.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::core {

/// Lower case without blanks, `_` and `-`: the form in which component names are compared
/// (SuperGradients' rule, so `pp_yoloe_s`, `PPYoloE-S` and `ppyoloes` are one name).
std::string fuzzy_key(std::string_view name);

/// Up to `most` candidates near to `name` (edit distance over fuzzy keys, or one contains the
/// other), nearest first; empty when nothing is near.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates,
                                 std::size_t most = 3);

/// ", did you mean 'x' or 'y'?" or empty.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// "a, b, c"
std::string join(std::span<const std::string> items, std::string_view separator = ", ");

/// The shortest decimal text that reads back as the same number; nan, inf, -inf.
std::string number_text(double value);

std::string lower(std::string_view text);
std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace sgtrain::core
