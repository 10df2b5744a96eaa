// Where a run's numbers, pictures and files go: TensorBoard, and later W&B, ClearML, MLflow, each
// one file that registers its name. Loggers are made on rank 0 only, work on a thread of their own
// (make_async) and never stop a run: their failures are warnings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/registry.h"

namespace sgtrain::loggers {

/// What every logger is told about its run.
struct RunInfo {
  std::string experiment_name{};
  std::string project_name{};
  std::filesystem::path run_dir{};  // exists
  bool resumed = false;
  std::int64_t resume_step = 0;  // first step (epoch) that will be written again
};

using Scalars = std::vector<std::pair<std::string, double>>;

/// Steps are epochs, as in SuperGradients, unless the caller counts otherwise. Tags are
/// normalised by make_async(): lower case, blanks become '_'. Images are CV_8UC3 RGB or CV_8UC1.
class Logger {
 public:
  using Registry = core::Registry<Logger, const RunInfo&>;
  static Registry& registry();
  virtual ~Logger() = default;
  virtual std::string name() const = 0;  // in warnings

  virtual void add_config(std::string_view tag, std::string_view yaml) = 0;
  virtual void add_scalars(const Scalars& scalars, std::int64_t step) = 0;
  virtual void add_image(std::string_view tag, const cv::Mat& image, std::int64_t step) = 0;
  virtual void add_text(std::string_view tag, std::string_view markdown, std::int64_t step) = 0;
  virtual void add_file(const std::filesystem::path& file) = 0;
  virtual void add_checkpoint(const std::filesystem::path& file, std::int64_t step) = 0;
  virtual void flush() = 0;
  virtual void close() = 0;

  void add_scalar(std::string_view tag, double value, std::int64_t step) {
    add_scalars({{std::string(tag), value}}, step);
  }
};

/// "Train_PPYoloELoss/loss cls" -> "train_ppyoloeloss/loss_cls".
std::string normalize_tag(std::string_view tag);

/// Several loggers as one, served by one background thread over a bounded queue. Calls return at
/// once; a full queue makes them wait (up to 5 s, then the item is dropped and counted). The first
/// failure of a logger is one warning, later ones are counted, and close() reports the counts.
std::unique_ptr<Logger> make_async(std::vector<std::unique_ptr<Logger>> loggers,
                                   std::size_t queue_items = 1024);
/// A logger that does nothing (ranks other than 0, logging switched off).
std::unique_ptr<Logger> make_null();

}  // namespace sgtrain::loggers
