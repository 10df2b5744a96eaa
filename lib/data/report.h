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
  kClipped,       // reached over the border by more than a rounding error; kept, clipped
  kIgnoredClass,  // class_ids_to_ignore, or not in class_inclusion_list
  kCrowd,         // a crowd region, left out because with_crowd is off
  kBadFile,       // annotation file unreadable (skipped on request)
  kBadImage,      // image missing or unreadable
  kSizeMismatch,  // annotated size differs from the picture's
};
std::string_view finding_name(Finding finding);

/// Counts of one data set; at most `kKeep` offenders are kept per kind.
/// images == with_boxes + empty + without_label_file.
struct Report {
  static constexpr std::size_t kKeep = 3;

  std::string title;            // "COCODetectionDataset annotations/train.json"
  std::int64_t images = 0;      // found (after max_num_samples)
  std::int64_t with_boxes = 0;  // of these: at least one usable box (or a class label)
  std::int64_t empty = 0;       // label file or entry there, but no usable box
  std::int64_t emptied = 0;     // of the empty: had boxes, all of which were dropped
  std::int64_t without_label_file = 0;
  std::int64_t labels_without_image = 0;
  std::int64_t kept = 0;   // images that the data set serves
  std::int64_t boxes = 0;  // usable boxes, crowd included
  std::int64_t crowd = 0;  // of these: crowd
  double seconds = 0;      // spent on indexing
  std::map<Finding, std::int64_t> counts;
  std::map<Finding, std::vector<std::string>> offenders;  // "file:line: why"
  std::vector<std::string> warnings;                      // remarks about the whole set

  void add(Finding finding, const std::string& offender);
  /// Counts without a description.
  void add(Finding finding, std::int64_t times = 1) { counts[finding] += times; }
  /// True while another offender of this kind would be kept (describing it costs time).
  bool wants(Finding finding) const;
  std::int64_t count(Finding finding) const;
  const std::vector<std::string>& first(Finding finding) const;
  /// Adds counts and warnings; keeps the first offenders.
  void merge(const Report& other);
  /// Lines to print at start, without final newline.
  std::string text() const;
};

}  // namespace sgtrain::data
