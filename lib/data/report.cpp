#include "data/report.h"

#include <fmt/format.h>

namespace sgtrain::data {

std::string_view finding_name(Finding finding) {
  switch (finding) {
    case Finding::kBadRow:
      return "unreadable";
    case Finding::kBadClass:
      return "unknown class";
    case Finding::kInverted:
      return "inverted";
    case Finding::kZeroSize:
      return "without width or height";
    case Finding::kOutside:
      return "outside of the image";
    case Finding::kClipped:
      return "clipped at the border";
    case Finding::kIgnoredClass:
      return "of classes left out";
    case Finding::kCrowd:
      return "crowd regions left out";
    case Finding::kBadFile:
      return "unreadable annotation files";
    case Finding::kBadImage:
      return "missing or unreadable images";
    case Finding::kSizeMismatch:
      return "images of another size than annotated";
  }
  return "?";
}

void Report::add(Finding finding, const std::string& offender) {
  ++counts[finding];
  auto& list = offenders[finding];
  if (list.size() < kKeep) list.push_back(offender);
}

bool Report::wants(Finding finding) const {
  return first(finding).size() < kKeep;
}

std::int64_t Report::count(Finding finding) const {
  const auto found = counts.find(finding);
  return found == counts.end() ? 0 : found->second;
}

const std::vector<std::string>& Report::first(Finding finding) const {
  static const std::vector<std::string> kNone;
  const auto found = offenders.find(finding);
  return found == offenders.end() ? kNone : found->second;
}

void Report::merge(const Report& other) {
  images += other.images;
  with_boxes += other.with_boxes;
  empty += other.empty;
  emptied += other.emptied;
  without_label_file += other.without_label_file;
  labels_without_image += other.labels_without_image;
  kept += other.kept;
  boxes += other.boxes;
  crowd += other.crowd;
  for (const auto& [finding, count] : other.counts) counts[finding] += count;
  for (const auto& [finding, list] : other.offenders) {
    auto& mine = offenders[finding];
    for (const std::string& offender : list) {
      if (mine.size() < kKeep) mine.push_back(offender);
    }
  }
  warnings.insert(warnings.end(), other.warnings.begin(), other.warnings.end());
}

std::string Report::text() const {
  std::string out = fmt::format("{}: {} images", title, images);
  const bool labelled_only = boxes == 0 && empty == 0 && without_label_file == 0;
  if (!labelled_only) {
    out += fmt::format(" ({} with boxes, {} empty, {} without label file)", with_boxes, empty,
                       without_label_file);
  }
  if (labels_without_image > 0)
    out += fmt::format(", {} labels without image", labels_without_image);
  if (!labelled_only) {
    out += fmt::format(", {} boxes", boxes);
    if (crowd > 0) out += fmt::format(" ({} crowd)", crowd);
  }
  if (kept != images) out += fmt::format(", {} images used", kept);
  if (emptied > 0) out += fmt::format("\n  {} images lost all their boxes", emptied);
  for (const auto& [finding, count] : counts) {
    const bool of_images = finding >= Finding::kBadFile;
    const bool kept_box = finding == Finding::kClipped;
    out += fmt::format("\n  {} {}{}{}", count, of_images ? "" : "boxes ", finding_name(finding),
                       of_images || kept_box ? "" : ": dropped");
    for (const std::string& offender : first(finding)) out += "\n    " + offender;
  }
  for (const std::string& warning : warnings) out += "\n  " + warning;
  return out;
}

}  // namespace sgtrain::data
