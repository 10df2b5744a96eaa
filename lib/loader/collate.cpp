#include "loader/collate.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "data/boxes.h"

namespace sgtrain::loader {
namespace {

using data::Sample;
using Kept = std::vector<const Sample*>;

std::string size_text(const Sample& sample) {
  return sample.name + " " + std::to_string(sample.image.cols) + "x" +
         std::to_string(sample.image.rows);
}

at::Tensor stack_images(const Kept& kept, Buffers& buffers) {
  const Sample& first = *kept.front();
  for (const Sample* sample : kept) {
    if (sample->image.size() == first.image.size()) continue;
    throw core::Error(
        "images of one batch differ in size: " + size_text(first) + ", " + size_text(*sample), {},
        "add a transform that fixes the size (DetectionPaddedRescale, "
        "DetectionPadToSize, Resize and CenterCrop), or set batch_size: 1");
  }
  const int height = first.image.rows, width = first.image.cols;
  at::Tensor images = buffers.images(static_cast<std::int64_t>(kept.size()), height, width);
  auto* out = images.mutable_data_ptr<std::uint8_t>();
  const auto row = static_cast<std::size_t>(3 * width);
  for (const Sample* sample : kept) {
    for (int y = 0; y < height; ++y, out += row) std::memcpy(out, sample->image.ptr(y), row);
  }
  return images;
}

/// Moves images over the gaps that missing samples left.
at::Tensor close_gaps(at::Tensor images, const std::vector<char>& missing) {
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i]) continue;
    const auto at = static_cast<std::int64_t>(i);
    if (kept != at) images[kept].copy_(images[at]);
    ++kept;
  }
  return images.narrow(0, 0, kept);
}

at::Tensor box_rows(const Kept& kept, bool crowd) {
  const auto wanted = [crowd](const data::Box& box) { return box.crowd == crowd; };
  std::int64_t count = 0;
  for (const Sample* sample : kept) {
    count += std::count_if(sample->boxes.begin(), sample->boxes.end(), wanted);
  }
  at::Tensor rows = at::empty({count, 6}, at::kFloat);
  auto* out = rows.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    for (const data::Box& box : kept[i]->boxes) {
      if (!wanted(box)) continue;
      const data::TargetRow row = data::target_row(box);
      const std::array<float, 6> values{
          static_cast<float>(i), row.label, row.cx, row.cy, row.w, row.h};
      out = std::copy(values.begin(), values.end(), out);
    }
  }
  return rows;
}

at::Tensor labels(const Kept& kept) {
  at::Tensor out = at::empty({static_cast<std::int64_t>(kept.size())}, at::kLong);
  auto* label = out.mutable_data_ptr<std::int64_t>();
  for (const Sample* sample : kept) *label++ = sample->label;
  return out;
}

at::Tensor masks(const Kept& kept) {
  const cv::Size size = kept.front()->mask.size();
  at::Tensor out =
      at::empty({static_cast<std::int64_t>(kept.size()), size.height, size.width}, at::kLong);
  auto* id = out.mutable_data_ptr<std::int64_t>();
  for (const Sample* sample : kept) {
    const cv::Mat& mask = sample->mask;
    if (mask.size() != size) {
      throw core::Error("masks of one batch differ in size", sample->name);
    }
    for (int y = 0; y < mask.rows; ++y) {
      for (int x = 0; x < mask.cols; ++x) {
        *id++ =
            mask.type() == CV_16UC1 ? mask.at<std::uint16_t>(y, x) : mask.at<std::uint8_t>(y, x);
      }
    }
  }
  return out;
}

}  // namespace

tensor::Batch collate(const std::vector<Sample>& samples, const std::vector<char>& missing,
                      at::Tensor images, data::Task task, Buffers& buffers) {
  Kept kept;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!missing[i]) kept.push_back(&samples[i]);
  }
  tensor::Batch batch;
  if (kept.empty()) {
    batch.images = at::empty({0, 0, 0, 3}, at::kByte);
    return batch;
  }
  if (!images.defined()) {
    batch.images = stack_images(kept, buffers);
  } else if (kept.size() < samples.size()) {
    batch.images = close_gaps(std::move(images), missing);
  } else {
    batch.images = std::move(images);
  }
  for (const Sample* sample : kept) {
    batch.indices.push_back(sample->index);
    batch.original_size.emplace_back(sample->original_size.height, sample->original_size.width);
  }
  switch (task) {
    case data::Task::kClassification:
      batch.targets.labels = labels(kept);
      break;
    case data::Task::kSegmentation:
      batch.targets.masks = masks(kept);
      break;
    case data::Task::kDetection:
    case data::Task::kPose:
      batch.targets.boxes = box_rows(kept, false);
      batch.targets.crowd_boxes = box_rows(kept, true);
      break;
  }
  return batch;
}

}  // namespace sgtrain::loader
