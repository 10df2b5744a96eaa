// Preprocessing for prediction ("processing" in SuperGradients' words): a deterministic list of
// steps from an upright RGB picture to network input, kept in checkpoints as plain
// {Name: {params}} values, with the way back for boxes and masks.
//
// Images stay bytes: StandardizeImage and NormalizeImage become the device-side `Normalisation`.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "core/registry.h"
#include "data/normalisation.h"
#include "data/padding.h"
#include "data/sample.h"
#include "data/transform.h"

namespace sgtrain::data {

/// How one step moves the picture: out = in * scale + (padding.left, padding.top) - crop.
struct Mapping {
  cv::Size before;  // size of the picture before the step
  double scale_x = 1.0, scale_y = 1.0;
  Padding padding;
  cv::Point crop{};  // top left corner of the window that is kept
  cv::Size after;    // size of the picture behind the step
};

class Processing {
 public:
  using Registry = core::Registry<Processing>;
  static Registry& registry();

  virtual ~Processing() = default;
  /// What the step does to a picture of size mapping.before (mapping.after is the same size when
  /// this is called). Errors: core::Error for sizes that the step cannot take.
  virtual void plan(Mapping& /*mapping*/) const {}
  /// A new image of size mapping.after (or `image` itself where nothing changes).
  /// @param reversed channels lie reversed with regard to what the step expects (colours of pads)
  virtual cv::Mat apply(const cv::Mat& image, bool reversed, const Mapping& mapping) const = 0;
  /// Steps that only change values or the channel order do not run: they fold.
  virtual bool fold(Normalisation& /*normalisation*/, bool& /*reversed*/) const { return false; }
  /// Left out by `--skip-image-resizing`.
  virtual bool resizes_image() const { return true; }
  virtual std::optional<cv::Size> output_shape() const { return std::nullopt; }
};

/// A picture on its way through the network.
struct NetworkInput {
  cv::Mat image;  // CV_8UC3, channels in the network's order
  std::vector<Mapping> mappings;
  cv::Size original;

  core::Geometry geometry() const;
};

class Preprocessing {
 public:
  /// From `[{Name: {params}}, …]`, ComposeProcessing taken apart. Mistakes become problems of the
  /// node; the result is then empty.
  static Preprocessing from(core::Node& list);
  /// Errors: core::InputError.
  static Preprocessing from(const ProcessingList& list, std::string_view where = {});

  /// Thread-safe. Errors: core::Error (picture larger than a pad, crop larger than the picture).
  NetworkInput operator()(const cv::Mat& rgb) const;
  /// Where it puts a picture of this size, without looking at one. Errors: as above.
  core::Geometry geometry(cv::Size picture) const;

  /// What the device applies to the bytes.
  const Normalisation& normalisation() const { return normalisation_; }
  /// Size of the network input (the last step that fixes it), where it is fixed.
  std::optional<cv::Size> output_shape() const;
  /// The same without resizing and padding; pads with zeros on the right and below to a multiple.
  Preprocessing without_resizing(int multiple = 32) const;
  /// What to store in a checkpoint.
  const ProcessingList& list() const { return list_; }
  bool empty() const { return list_.empty(); }

 private:
  void add(std::unique_ptr<Processing> step, core::TreePtr entry);
  std::vector<Mapping> plan(cv::Size picture) const;

  ProcessingList list_;
  struct Step {
    std::shared_ptr<const Processing> processing;
    bool folded = false;
    bool reversed = false;  // channel order at this step: reversed with regard to RGB
  };
  std::vector<Step> steps_;
  Normalisation normalisation_;
  bool reversed_ = false;
};

/// A mask of the network input back in the size of the picture. Class ids: nearest neighbour.
cv::Mat mask_to_original(const NetworkInput& input, const cv::Mat& mask);

}  // namespace sgtrain::data
