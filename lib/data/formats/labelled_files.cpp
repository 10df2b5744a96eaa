#include "data/formats/labelled_files.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml.h"
#include "data/files.h"
#include "image/image.h"

namespace sgtrain::data {
namespace {

constexpr std::size_t kMaxListBytes = std::size_t{1} << 30;

/// A name as a list line gives it, or its first word.
template <class Map>
typename Map::const_iterator find_line(const Map& by_name, std::string_view line) {
  const auto whole = by_name.find(line);
  if (whole != by_name.end()) return whole;
  return by_name.find(line.substr(0, line.find_first_of(" \t")));
}

}  // namespace

void pair_folders(const std::filesystem::path& images_root,
                  const std::filesystem::path& labels_root, std::string_view suffix,
                  LabelledFiles& out, Report& report) {
  const auto images =
      list_files(images_root, [](std::string_view name) { return image::has_image_suffix(name); });
  const auto labels = list_files(labels_root, [&](std::string_view name) {
    return name.size() > suffix.size() &&
           core::lower(name.substr(name.size() - suffix.size())) == suffix && name != "classes.txt";
  });
  std::unordered_map<std::string_view, std::size_t> label_of;
  label_of.reserve(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) label_of.emplace(stem_of(labels[i]), i);
  std::vector<bool> used(labels.size(), false);
  for (const std::string& image : images) {
    const auto found = label_of.find(stem_of(image));
    out.images.add(image);
    if (found == label_of.end()) {
      out.labels.add({});
      continue;
    }
    used[found->second] = true;
    out.labels.add(labels[found->second]);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) report.labels_without_image += used[i] ? 0 : 1;
}

void keep_listed(const std::filesystem::path& list_file, bool skip_bad, LabelledFiles& files,
                 Report& report) {
  std::unordered_map<std::string_view, std::size_t> by_name;
  by_name.reserve(files.images.size() * 2);
  for (std::size_t i = 0; i < files.images.size(); ++i) {
    by_name.emplace(files.images[i], i);
    by_name.emplace(stem_of(files.images[i]), i);
  }
  LabelledFiles kept;
  Report missing;
  const auto lines = read_lines(list_file);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    const std::string_view text = core::trim(lines[line]);
    if (text.empty()) continue;
    const auto found = find_line(by_name, text);
    if (found == by_name.end()) {
      missing.add(Finding::kBadImage,
                  fmt::format("{}:{}: no image '{}'", list_file.native(), line + 1, text));
      continue;
    }
    kept.images.add(files.images[found->second]);
    kept.labels.add(files.labels[found->second]);
  }
  if (missing.count(Finding::kBadImage) > 0 && !skip_bad) {
    std::string text =
        fmt::format("{} listed images do not exist", missing.count(Finding::kBadImage));
    for (const std::string& one : missing.first(Finding::kBadImage)) text += "\n  " + one;
    throw core::InputError(text, list_file.native());
  }
  report.merge(missing);
  report.labels_without_image = 0;  // the others belong to other splits
  files = std::move(kept);
}

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::vector<std::string> lines = core::split(core::read_text(file, kMaxListBytes), '\n');
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace sgtrain::data
