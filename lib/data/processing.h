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

#include "core/registry.h"
#include "data/normalisation.h"
#include "data/padding.h"
#include "data/sample.h"
#include "data/transform.h"

namespace sgtrain::data {

/// How one step moved the picture: out = in * scale + (padding.left, padding.top) - crop.
struct Mapping {
  double scale_x = 1.0, scale_y = 1.0;
  Padding padding;
  cv::Point crop;   // top left corner of the window that was kept
  cv::Size before;  // size of the picture before the step
};

class Processing {
 public:
  using Registry = core::Registry<Processing>;
  static Registry& registry();

  virtual ~Processing() = default;
  /// A new image (or `image` itself where nothing changes); notes its geometry in `mapping`.
  /// @param reversed channels lie reversed with regard to what the step expects (colours of pads)
  virtual cv::Mat apply(const cv::Mat& image, bool reversed, Mapping& mapping) const = 0;
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

/// Boxes and masks of the network input back in pixels of the original picture (not clipped).
void to_original(const NetworkInput& input, Box& box);
void to_original(const NetworkInput& input, float& x, float& y);
/// Class ids: nearest neighbour.
cv::Mat mask_to_original(const NetworkInput& input, const cv::Mat& mask);

}  // namespace sgtrain::data
