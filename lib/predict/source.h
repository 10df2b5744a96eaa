// Pictures one after the other, from files or from an IDX file.
#pragma once

#include <filesystem>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "predict/outputs.h"

namespace sgtrain::predict {

struct Picture {
  std::filesystem::path file;  // of an IDX file: "<file>[index]"
  cv::Mat rgb;                 // upright
};

class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  /// @throws core::Error for a picture that cannot be decoded; the source then stands at the next
  virtual Picture next() = 0;
};

/// @param limit only the first so many; 0: all
/// @throws core::InputError for names that match nothing
std::unique_ptr<Source> open_source(const std::vector<std::string>& names, bool recursive,
                                    int limit);

/// Gives results the image ids of a COCO annotation file (by file name) and returns the category id
/// of each class (by name).
/// @throws core::InputError naming an image or class that the file does not have
std::vector<std::int64_t> apply_coco_ids(const std::filesystem::path& annotations,
                                         const std::vector<std::string>& class_names,
                                         std::vector<Result>& results);

}  // namespace sgtrain::predict
