// What was found when a data set was indexed: counts, and the first offenders with file and line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::data {

/// Why an annotation was dropped or changed.
enum class Finding {
  kBadRow,        // could not be read (text row, JSON entry, xml object)
  kBadClass,      // class id or name outside of the list
  kInverted,      // x2 < x1 or y2 < y1
  kZeroSize,      // no width or height
  kOutside,       // nothing left inside the image
  kClipped,       // reached over the border; kept, clipped
  kDuplicate,     // the same box twice in one image; one kept
  kIgnoredClass,  // class_ids_to_ignore, or not in class_inclusion_list
  kBadFile,       // annotation file unreadable (skipped on request)
  kBadImage,      // image missing or unreadable
  kSizeMismatch,  // annotated size differs from the picture's
};
std::string_view finding_name(Finding finding);

/// Counts of one data set. Cheap to copy; at most `kKeep` offenders are kept per kind.
struct Report {
  static constexpr std::size_t kKeep = 3;

  std::string title;                    // "COCODetectionDataset annotations/train.json"
  std::int64_t images = 0;              // usable images, after all filters
  std::int64_t with_boxes = 0;          // of these: at least one box
  std::int64_t empty = 0;               // label file or entry present, but no box
  std::int64_t without_label_file = 0;  // image without label file
  std::int64_t labels_without_image = 0;
  std::int64_t dropped_images = 0;  // left out: ignore_empty_annotations, max_num_samples, …
  std::int64_t boxes = 0;           // usable boxes, crowd included
  std::int64_t crowd = 0;           // of these: crowd
  std::map<Finding, std::int64_t> counts;
  std::map<Finding, std::vector<std::string>> offenders;  // "file:line: why"
  std::vector<std::string> warnings;  // whole-set remarks ("looks like pixel coordinates")

  void add(Finding finding, const std::string& offender);
  std::int64_t count(Finding finding) const;
  void merge(const Report& other);  // adds counts; keeps the first offenders
  /// Lines to print at start, without final newline.
  std::string text() const;
};

}  // namespace sgtrain::data
