#include "data/read_params.h"

#include <algorithm>
#include <string>

namespace sgtrain::data {
namespace {

constexpr int kMaxSide = 65536;

/// A number or a list of numbers.
template <class T>
std::vector<T> numbers(core::Node& node, std::string_view key) {
  core::Node value = node.child(key);
  if (value.is_list()) return value.as<std::vector<T>>();
  return {value.as<T>()};
}

}  // namespace

std::optional<cv::Size> find_size(core::Node& node, std::string_view key) {
  if (node.describing() || !node.has(key)) {
    node.find<std::vector<int>>(key);  // documents the key
    return std::nullopt;
  }
  const std::size_t before = node.problems()->items().size();
  const std::vector<int> values = numbers<int>(node, key);
  if (node.problems()->items().size() != before) return std::nullopt;
  const bool in_bounds = std::all_of(values.begin(), values.end(),
                                     [](int side) { return side >= 1 && side <= kMaxSide; });
  if (values.empty() || values.size() > 2 || !in_bounds) {
    node.problem(key, "expected a size, n or [height, width], each in [1, 65536]");
    return std::nullopt;
  }
  return cv::Size(values.back(), values.front());
}

cv::Size get_size(core::Node& node, std::string_view key) {
  if (node.describing() || !node.has(key)) return cv::Size(1, node.get<int>(key));
  return find_size(node, key).value_or(cv::Size(1, 1));
}

cv::Size get_size_or(core::Node& node, std::string_view key, int fallback) {
  if (node.describing() || !node.has(key)) {
    const int side = node.get_or(key, fallback);
    return {side, side};
  }
  return find_size(node, key).value_or(cv::Size(fallback, fallback));
}

std::pair<double, double> get_range_or(core::Node& node, std::string_view key, double center,
                                       std::pair<double, double> fallback) {
  if (node.describing() || !node.has(key)) {
    node.get_or(key, std::vector<double>{fallback.first, fallback.second});
    return fallback;
  }
  const std::size_t before = node.problems()->items().size();
  const std::vector<double> values = numbers<double>(node, key);
  if (node.problems()->items().size() != before) return fallback;
  if (values.size() == 1) {
    // -0.0 would read as negative in messages; the sum is exact for the other values.
    return {center - values[0], center + values[0]};
  }
  if (values.size() != 2 || values[0] > values[1]) {
    node.problem(key, "expected one number or [low, high]");
    return fallback;
  }
  return {values[0], values[1]};
}

cv::Scalar get_color_or(core::Node& node, std::string_view key, int fallback) {
  if (node.describing() || !node.has(key)) return cv::Scalar::all(node.get_or(key, fallback));
  const std::size_t before = node.problems()->items().size();
  const std::vector<double> values = numbers<double>(node, key);
  if (node.problems()->items().size() != before) return cv::Scalar::all(fallback);
  const bool in_bounds =
      std::all_of(values.begin(), values.end(), [](double v) { return v >= 0.0 && v <= 255.0; });
  if ((values.size() != 1 && values.size() != 3) || !in_bounds) {
    node.problem(key, "expected one number or three, each in [0, 255]");
    return cv::Scalar::all(fallback);
  }
  return values.size() == 1 ? cv::Scalar::all(values[0])
                            : cv::Scalar(values[0], values[1], values[2]);
}

std::vector<double> get_channels(core::Node& node, std::string_view key) {
  if (node.describing() || !node.has(key)) {
    node.get<std::vector<double>>(key);
    return {0.0};
  }
  const std::size_t before = node.problems()->items().size();
  const std::vector<double> values = numbers<double>(node, key);
  if (node.problems()->items().size() != before) return {0.0};
  if (values.size() != 1 && values.size() != 3) {
    node.problem(key, "expected one number or one for each of the 3 channels");
    return {0.0};
  }
  return values;
}

}  // namespace sgtrain::data
