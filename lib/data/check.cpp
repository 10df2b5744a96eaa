#include "data/check.h"

#include <fmt/format.h>

#include "core/error.h"
#include "data/parallel.h"
#include "image/image.h"

namespace sgtrain::data {
namespace {

struct Part {
  Report report;
  std::int64_t turned = 0;
};

void check_one(const Dataset& dataset, std::int64_t index, CheckDepth depth, Part& part) {
  const std::string path = dataset.image_path(index);
  ++part.report.images;
  try {
    const image::Info info = image::probe_file(path);
    const cv::Size annotated = dataset.annotation(index).size;
    if (!annotated.empty() && annotated != info.upright()) {
      part.turned += annotated == info.stored ? 1 : 0;
      part.report.add(Finding::kSizeMismatch,
                      fmt::format("{}: annotated as {} x {}, is {} x {}", path, annotated.width,
                                  annotated.height, info.upright().width, info.upright().height));
    }
    if (depth == CheckDepth::kHeaders) return;
    const image::Decoded decoded = image::decode_file(path);
    if (!decoded.warning.empty()) part.report.add(Finding::kBadImage, decoded.warning);
  } catch (const core::Error& error) {
    part.report.add(Finding::kBadImage, error.what());
  }
}

}  // namespace

Report check_images(const Dataset& dataset, CheckDepth depth) {
  constexpr std::size_t kGrain = 64;  // pictures that justify a thread
  Report report;
  report.title = dataset.report().title;
  if (!dataset.images_are_files()) {
    report.images = report.kept = dataset.size();
    return report;
  }
  const auto count = static_cast<std::size_t>(dataset.size());
  std::vector<Part> parts(part_count(count, kGrain));
  parallel_ranges(count, parts.size(), [&](std::size_t number, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      check_one(dataset, static_cast<std::int64_t>(i), depth, parts[number]);
    }
  });
  std::int64_t turned = 0;
  for (const Part& part : parts) {
    report.merge(part.report);
    turned += part.turned;
  }
  report.kept = report.images;
  if (turned > 0) {
    report.warnings.push_back(
        fmt::format("{} annotated sizes are those before the EXIF rotation: labels drawn on the "
                    "unturned pictures need honor_exif: False",
                    turned));
  }
  return report;
}

}  // namespace sgtrain::data
