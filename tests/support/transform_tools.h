// Running transforms without a data set or a recipe file.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/node.h"
#include "data/transform.h"

namespace sgtrain::support {

/// A picture in which every pixel is its own hash.
inline cv::Mat noise_image(int height, int width, std::uint64_t seed = 1) {
  core::Random random{seed, static_cast<std::uint64_t>(height), static_cast<std::uint64_t>(width)};
  cv::Mat image(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < 3 * width; ++i) image.ptr(y)[i] = static_cast<std::uint8_t>(random.bits());
  }
  return image;
}

/// A picture that changes slowly, with some noise: closer to photographs.
inline cv::Mat smooth_image(int height, int width) {
  core::Random random{7, static_cast<std::uint64_t>(height), static_cast<std::uint64_t>(width)};
  cv::Mat image(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int noise = static_cast<int>(random.below(9));
      image.at<cv::Vec3b>(y, x) =
          cv::Vec3b(static_cast<uchar>((x * 255 / width + noise) % 256),
                    static_cast<uchar>((y * 255 / height + noise) % 256),
                    static_cast<uchar>(((x + y) * 127 / (width + height) + 100 + noise) % 256));
    }
  }
  return image;
}

/// Largest difference of two images; 1000 when their sizes differ.
inline int largest_difference(const cv::Mat& a, const cv::Mat& b) {
  if (a.size() != b.size() || a.type() != b.type()) return 1000;
  return static_cast<int>(cv::norm(a, b, cv::NORM_INF));
}

/// Parameters of one component: {"prob", Tree::of(1.0)}, …
using Params = std::vector<std::pair<std::string, core::TreePtr>>;

inline core::TreePtr list_of(const std::vector<double>& values) {
  const core::TreePtr list = core::Tree::make_list();
  for (const double v : values) {
    const auto whole = static_cast<std::int64_t>(v);
    list->list.push_back(static_cast<double>(whole) == v ? core::Tree::of(whole)
                                                         : core::Tree::of(v));
  }
  return list;
}

/// `transforms:` of a recipe. Throws core::InputError for wrong parameters.
inline data::Pipeline::Params parse_transforms(
    const std::vector<std::pair<std::string, Params>>& transforms) {
  const core::TreePtr list = core::Tree::make_list();
  for (const auto& [name, params] : transforms) {
    const core::TreePtr values = core::Tree::make_map();
    for (const auto& [key, value] : params) values->set(key, value);
    const core::TreePtr entry = core::Tree::make_map();
    entry->set(name, values);
    list->list.push_back(entry);
  }
  const core::TreePtr root = core::Tree::make_map();
  root->set("transforms", list);
  const auto problems = std::make_shared<core::Problems>();
  core::Node node(root, problems);
  auto out = data::Pipeline::Params::from(node);
  node.report_unread();
  problems->throw_if_any("transforms");
  return out;
}

/// The transforms of a recipe as a pipeline; `reversed`: what detection data sets begin with.
inline data::Pipeline make_pipeline(const std::vector<std::pair<std::string, Params>>& transforms,
                                    bool reversed = false) {
  return data::Pipeline(parse_transforms(transforms),
                        reversed ? data::Task::kDetection : data::Task::kClassification);
}

/// Applies a pipeline to a copy; nothing is left in scratch memory.
inline data::Sample run(const data::Pipeline& pipeline, data::Sample sample,
                        core::Random random = {1}, const data::SampleSource* source = nullptr) {
  data::Scratch scratch;
  sample.image = sample.image.clone();
  data::Context context(random, scratch, source);
  pipeline.apply(sample, context);
  sample.image = sample.image.clone();
  return sample;
}

/// Samples held in memory.
class MemorySource final : public data::SampleSource {
 public:
  explicit MemorySource(std::vector<data::Sample> samples) : samples_(std::move(samples)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  bool has_objects(std::int64_t index) const override {
    return !samples_[static_cast<std::size_t>(index)].boxes.empty();
  }
  data::Sample load(std::int64_t index) const override {
    data::Sample sample = samples_[static_cast<std::size_t>(index)];
    sample.image = sample.image.clone();
    return sample;
  }

 private:
  std::vector<data::Sample> samples_;
};

}  // namespace sgtrain::support
