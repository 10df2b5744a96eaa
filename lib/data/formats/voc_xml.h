// One Pascal VOC annotation file: http://host.robots.ox.ac.uk/pascal/VOC/
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample.h"

namespace sgtrain::data {

struct VocObject {
  std::string name;
  Box box;  // xmin, ymin, xmax, ymax as written; label not set
  bool difficult = false;
  std::uint32_t line = 0;
};

struct VocFile {
  cv::Size size{};  // 0x0 when absent
  std::vector<VocObject> objects;
  std::vector<std::pair<std::uint32_t, std::string>>
      bad;  // objects that could not be read: line, why
};

/// Errors: core::InputError with file:line when the text is not one well-formed XML document.
VocFile parse_voc_xml(std::string_view text, const std::string& file);

}  // namespace sgtrain::data
