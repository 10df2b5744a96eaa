#include "data/formats/yolo_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "core/text.h"

namespace sgtrain::data {
namespace {

constexpr double kPixelSign = 2.0;  // fractions above this are no overshoot any more

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool parse_number(std::string_view text, double& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && stop == end && std::isfinite(out);
}

/// Fields of a row. False when commas and blanks both separate ("0 0,5 0,5": decimal commas?).
bool split_fields(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  const bool commas = line.find(',') != std::string_view::npos;
  std::size_t at = 0;
  while (at < line.size()) {
    while (at < line.size() && blank(line[at])) ++at;
    const std::size_t begin = at;
    while (at < line.size() && !blank(line[at]) && line[at] != ',') ++at;
    if (begin < at) fields.push_back(line.substr(begin, at - begin));
    while (at < line.size() && blank(line[at])) ++at;
    if (!commas || at >= line.size()) continue;
    if (line[at] != ',') return false;
    ++at;
  }
  return true;
}

RowKind bad(YoloRow& row, std::string why, bool of_class = false) {
  row.why = std::move(why);
  row.bad_class = of_class;
  return RowKind::kBad;
}

/// Centre form to corners.
void from_centre(const double* v, Box& box) {
  box.x1 = static_cast<float>(v[0] - v[2] / 2);
  box.y1 = static_cast<float>(v[1] - v[3] / 2);
  box.x2 = static_cast<float>(v[0] + v[2] / 2);
  box.y2 = static_cast<float>(v[1] + v[3] / 2);
}

void hull(const std::vector<double>& v, Box& box) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  double low[2] = {kFar, kFar}, high[2] = {-kFar, -kFar};
  for (std::size_t i = 0; i < v.size(); ++i) {
    low[i % 2] = std::min(low[i % 2], v[i]);
    high[i % 2] = std::max(high[i % 2], v[i]);
  }
  box.x1 = static_cast<float>(low[0]);
  box.y1 = static_cast<float>(low[1]);
  box.x2 = static_cast<float>(high[0]);
  box.y2 = static_cast<float>(high[1]);
}

}  // namespace

RowKind parse_yolo_row(std::string_view line, YoloRow& row) {
  thread_local std::vector<std::string_view> fields;
  thread_local std::vector<double> values;
  if (!split_fields(line, fields)) {
    return bad(row,
               "commas and blanks both separate the values; write `class cx cy w h` with "
               "blanks and decimal points");
  }
  if (fields.empty()) return RowKind::kBlank;
  const std::size_t count = fields.size();
  if (count == 6) {
    return bad(row, "6 values (is the last one a score?); expected `class cx cy w h`");
  }
  if (count < 5 || count % 2 == 0) {
    return bad(row,
               fmt::format("{} values; expected `class cx cy w h`, or a polygon `class x y x y "
                           "x y …`",
                           count));
  }
  double label = 0;
  if (!parse_number(fields[0], label) || std::floor(label) != label || std::abs(label) > 1e9) {
    return bad(row, fmt::format("class must be an integer, got '{}'", fields[0]), true);
  }
  values.resize(count - 1);
  row.pixels = false;
  for (std::size_t i = 1; i < count; ++i) {
    if (!parse_number(fields[i], values[i - 1])) {
      return bad(row, fmt::format("'{}' is not a number", fields[i]));
    }
    row.pixels = row.pixels || values[i - 1] > kPixelSign;
  }
  row.label = static_cast<std::int64_t>(label);
  if (count == 5) {
    from_centre(values.data(), row.box);
  } else {
    hull(values, row.box);
  }
  return RowKind::kBox;
}

}  // namespace sgtrain::data
