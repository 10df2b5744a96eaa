// Reading of values that transforms and processings share: sizes, ranges, colours.
#pragma once

#include <array>
#include <opencv2/core.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/node.h"

namespace sgtrain::data {

/// A size: one number (square) or [height, width]; each in 1..65536. Absent or null: nullopt.
std::optional<cv::Size> find_size(core::Node& node, std::string_view key);
/// The same, required.
cv::Size get_size(core::Node& node, std::string_view key);
cv::Size get_size_or(core::Node& node, std::string_view key, int fallback);

/// A range: [low, high], or one number v meaning [center - v, center + v]. Absent: fallback.
std::pair<double, double> get_range_or(core::Node& node, std::string_view key, double center,
                                       std::pair<double, double> fallback);

/// A byte colour: one number for all channels or three. Absent: fallback.
cv::Scalar get_color_or(core::Node& node, std::string_view key, int fallback);

/// Per-channel numbers: one or three. Required.
std::vector<double> get_channels(core::Node& node, std::string_view key);

}  // namespace sgtrain::data
