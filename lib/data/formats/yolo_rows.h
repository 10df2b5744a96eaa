// Rows of YOLO label files: `class cx cy w h`, fractions of the image's width and height; a polygon
// `class x1 y1 x2 y2 x3 y3 …` counts as its bounding box.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/sample.h"

namespace sgtrain::data {

enum class RowKind { kBlank, kBox, kBad };

struct YoloRow {
  std::int64_t label = 0;
  Box box;              // corners as fractions; label not set
  bool pixels = false;  // values far above 1: pixel coordinates?
  bool bad_class = false;
  std::string why;  // of a bad row
};

/// Values are separated by blanks and tabs, or all by commas. Whole numbers may be written as 0.0.
RowKind parse_yolo_row(std::string_view line, YoloRow& row);

}  // namespace sgtrain::data
