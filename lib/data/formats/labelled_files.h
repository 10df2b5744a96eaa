// Images and the label files that belong to them, by stem: shared by the YOLO and VOC formats.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/report.h"
#include "data/string_pool.h"

namespace sgtrain::data {

struct LabelledFiles {
  StringPool images;  // relative to the images' folder, or absolute
  StringPool labels;  // relative to the labels' folder, or absolute; empty: no label file
};

/// All images below `images_root` (any known suffix in any case) with the files of `suffix` (lower
/// case, compared in any case) below `labels_root` that have the same path without suffix. Sorted.
/// `report` gets labels without image; a folder's `classes.txt` is no label file.
void pair_folders(const std::filesystem::path& images_root,
                  const std::filesystem::path& labels_root, std::string_view suffix,
                  LabelledFiles& out, Report& report);

/// Keeps what a list file names, in its order: one name a line, with or without suffix, the rest of
/// the line ignored when the first word alone is a name ("000012 -1").
/// Errors: core::InputError naming the first lines without image, unless `skip_bad` counts them.
void keep_listed(const std::filesystem::path& list_file, bool skip_bad, LabelledFiles& files,
                 Report& report);

/// Non-blank lines without line end.
std::vector<std::string> read_lines(const std::filesystem::path& file);

}  // namespace sgtrain::data
