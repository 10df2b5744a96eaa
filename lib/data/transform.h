// Transforms of samples, and the pipeline that a recipe's `transforms` list describes.
//
// Images stay bytes, RGB in memory and at most one copy is made of them: what the list says about
// normalisation (ToTensor, Normalize, DetectionStandardize …) is folded into one `Normalisation`,
// and channel swaps are remembered and done once at the end (the reference implementation decodes
// BGR for detection, so its DetectionRGB2BGR makes RGB there; `Context::bgr` follows what it would
// hold).
//
// A new transform is one file in data/transforms/ (see transform.h's classes below for the hooks),
// last line SGTRAIN_REGISTER(Transform, Class, "Name").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "data/normalisation.h"
#include "data/sample.h"

namespace sgtrain::data {

/// Where mixup and mosaic take their other samples from. Thread-safe.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t size() const = 0;
  virtual bool has_objects(std::int64_t index) const = 0;
  virtual Sample load(std::int64_t index) const = 0;
};

/// Memory of one thread for images in the making, reused from sample to sample.
class Scratch {
 public:
  /// CV_8UC3 of this size, not shared with any image in use; contents undefined.
  cv::Mat image(cv::Size size) { return take(size, CV_8UC3); }
  cv::Mat take(cv::Size size, int type);
  /// `image` lies in this memory and nobody else uses it.
  bool owns(const cv::Mat& image) const;

 private:
  std::vector<cv::Mat> blocks_;  // 1 x n CV_8U
};

/// What one sample's passage through a pipeline needs. Made for each sample.
class Context {
 public:
  Context(core::Random stream, Scratch& scratch, const SampleSource* source = nullptr)
      : random(stream), scratch_(scratch), source_(source) {}

  core::Random random;
  /// The reference implementation would hold the image's channels reversed here.
  bool bgr = false;
  /// What was folded so far; RandomErase and Lighting, which the reference applies to normalised
  /// tensors, translate their values with it.
  Normalisation normalisation;

  /// Another sample drawn at random, clipped boxes included. With `with_objects`: one that has
  /// boxes, if the draw finds one. A sample that cannot be decoded is replaced by the next one.
  Sample load_other(bool with_objects);

  /// Another sample, fresh from the data set, has its channels in the other order than this one.
  bool other_is_reversed() const { return bgr != starts_bgr_; }

  /// Memory for the result of the current transform. For the last transform that makes an image
  /// this is the sample's place in the batch; for earlier ones it may be the part of that place in
  /// which the last one would leave an image of this size (Transform::place).
  cv::Mat result(cv::Size size);
  /// `image` stands at `at` in the sample's place in the batch, which has this size: a transform
  /// that only pads has nothing to copy.
  bool stands(const cv::Mat& image, cv::Size size, cv::Point at) const;
  /// The sample's place in the batch; empty where it has none.
  cv::Mat batch_place() const { return slot_; }
  /// Makes the pixels of `image` safe to change in place: copies them when a data set may still
  /// need them.
  void own(cv::Mat& image);
  /// Memory for intermediate images.
  cv::Mat scratch(cv::Size size) { return scratch_.image(size); }
  Scratch& pool() { return scratch_; }

 private:
  friend class Pipeline;
  bool in_slot(const cv::Mat& image) const;

  Scratch& scratch_;
  const SampleSource* source_;
  cv::Mat slot_;
  const cv::Mat* current_ = nullptr;  // the sample's image before the current transform
  const class Transform* last_maker_ = nullptr;
  bool starts_bgr_ = false;
  bool at_last_maker_ = false;
};

/// One deterministic preprocessing step as checkpoints keep it: {Name: {params}}.
using ProcessingList = std::vector<core::TreePtr>;

class Transform {
 public:
  using Registry = core::Registry<Transform>;
  static Registry& registry();

  virtual ~Transform() = default;

  /// Changes the sample in place. Thread-safe: draws from ctx.random only. With probability 0 (or
  /// no effect) it is the identity and draws nothing.
  virtual void apply(Sample& sample, Context& ctx) const = 0;

  /// A transform that only maps pixel values affinely adds its part and returns true; apply() is
  /// then never called.
  virtual bool fold(Normalisation& /*normalisation*/) const { return false; }
  /// May stand behind folded transforms: needs no pixel values, or translates them itself.
  virtual bool after_normalisation() const { return false; }
  /// Output size where it does not depend on the input.
  virtual std::optional<cv::Size> fixed_size() const { return std::nullopt; }
  /// Where an image of this size would stand, unchanged, in an output of fixed_size(): for
  /// transforms that pad and ask Context::stands before they copy.
  virtual std::optional<cv::Point> place(cv::Size /*image*/) const { return std::nullopt; }
  /// Does not change the image's size (pixels may change in place).
  virtual bool keeps_size() const { return false; }
  /// Ends mosaic and mixup for the last epochs of a run; called between epochs.
  virtual void close() {}
  /// Steps of the inference preprocessing that this transform stands for; nullopt when random.
  virtual std::optional<ProcessingList> processing() const { return std::nullopt; }
};

/// The transforms of one data set, in order. Thread-safe after construction.
class Pipeline {
 public:
  struct Params {
    std::vector<Transform::Registry::MakerType> makers;
    std::vector<std::string> names;  // as written
    /// Reads `transforms` of a `*_dataset_params` map: a list of names and {Name: {params}};
    /// torchvision's Compose is taken apart.
    static Params from(core::Node& dataset_params);
  };

  /// @param task detection and pose lists begin with the channels reversed (see above)
  /// @param where file:line for messages. Errors: core::InputError when a transform stands behind
  /// normalisation that must not.
  Pipeline(const Params& params, Task task, std::string_view where = {});
  Pipeline(std::vector<std::unique_ptr<Transform>> transforms, std::vector<std::string> names,
           bool starts_bgr, std::string_view where = {});

  /// @param slot the sample's place in the batch (CV_8UC3 of size output_size()), or empty
  void apply(Sample& sample, Context& ctx, cv::Mat slot = {}) const;

  /// What the device applies to the batch.
  const Normalisation& normalisation() const { return normalisation_; }
  /// Size of every image that leaves, where it is fixed.
  std::optional<cv::Size> output_size() const { return output_size_; }
  void close_mosaic();
  std::size_t size() const { return transforms_.size(); }
  const std::vector<std::string>& names() const { return names_; }

  /// The equivalent inference preprocessing of a validation list, beginning with what the data set
  /// does (`input_dim`, may be empty): list of {Name: {params}}. Errors: core::Error when a
  /// transform is random.
  ProcessingList processing(std::optional<cv::Size> input_dim) const;

 private:
  struct Step {
    std::unique_ptr<Transform> transform;
    bool folded = false;
    Normalisation before;  // folded up to here
  };
  void fold(std::string_view where);

  std::vector<Step> transforms_;
  std::vector<std::string> names_;
  bool starts_bgr_ = false;
  Normalisation normalisation_;
  std::optional<cv::Size> output_size_;
  std::size_t last_maker_ = 0;  // index + 1 of the last transform that makes a new image
};

/// {Name: {params}} for ProcessingList.
core::TreePtr processing_entry(std::string name,
                               std::vector<std::pair<std::string, core::TreePtr>> params = {});
core::TreePtr tree_of(cv::Size size);  // [height, width]
core::TreePtr tree_of(std::span<const double> values);

}  // namespace sgtrain::data
