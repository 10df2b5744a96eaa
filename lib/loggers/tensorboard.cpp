// TensorBoard, the logger every run has: scalars, images and text as event files in the run folder.
#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "core/error.h"
#include "core/registry.h"
#include "image/image.h"
#include "loggers/event_file.h"
#include "loggers/logger.h"
#include "loggers/system_monitor.h"

namespace sgtrain::loggers {
namespace {

// Fields of tensorflow.Summary, Summary.Value, Summary.Image, SummaryMetadata and TensorProto.
constexpr int kValue = 1;
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9;
constexpr int kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;
constexpr int kPluginData = 1, kPluginName = 1, kDataClass = 4, kDataClassTensor = 2;
constexpr int kDtype = 1, kShape = 2, kStringValue = 8, kDtypeString = 7;
constexpr int kDim = 2, kDimSize = 1;

/// "base_sg_logger" of SuperGradients. Checkpoints and files already lie in the run folder, so
/// that adding them costs nothing here. The system monitor writes from a thread of its own.
class TensorBoardLogger final : public Logger {
 public:
  struct Params {
    bool monitor_system = true;  // use of CPU, memory, disk, network and GPUs

    static Params from(core::Node& n) {
      Params p;
      n.find<std::string>("project_name");
      if (n.get_or("storage_location", "local").value() != "local") {
        n.problem("storage_location", "only 'local' is possible: uploads to S3 are not built in");
      }
      // They steer services and prompts of SuperGradients that have no counterpart here.
      for (const char* key :
           {"tb_files_user_prompt", "launch_tensorboard", "tensorboard_port",
            "save_checkpoints_remote", "save_tensorboard_remote", "save_logs_remote"}) {
        if (n.has(key)) n.child(key).read_all();
      }
      if (n.has("launch_tensorboard") && n.child("launch_tensorboard").as<bool>()) {
        n.problems()->note("launch_tensorboard: start it yourself with tensorboard --logdir");
      }
      p.monitor_system = n.get_or("monitor_system", p.monitor_system);
      return p;
    }
  };
  TensorBoardLogger(const Params& params, const RunInfo& run)
      : file_(run.run_dir, run.resumed ? std::optional(run.resume_step) : std::nullopt) {
    if (params.monitor_system)
      monitor_ = std::make_unique<SystemMonitor>(
          [this](const Scalars& scalars, std::int64_t step) { write_system(scalars, step); });
  }

  std::string name() const override { return "tensorboard"; }
  void add_config(std::string_view tag, std::string_view yaml) override {
    add_text(tag, fmt::format("```yaml\n{}\n```", yaml), 0);
  }
  void add_scalars(const Scalars& scalars, std::int64_t step) override {
    ProtoWriter summary;
    for (const auto& [tag, value] : scalars) {
      summary.message(
          kValue, ProtoWriter().bytes(kTag, tag).real32(kSimpleValue, static_cast<float>(value)));
    }
    add_summary(step, summary);
  }
  void add_image(std::string_view tag, const cv::Mat& image, std::int64_t step) override {
    const std::vector<std::uint8_t> png = image::encode_png(image);
    ProtoWriter picture;
    picture.varint(kHeight, static_cast<std::uint64_t>(image.rows))
        .varint(kWidth, static_cast<std::uint64_t>(image.cols))
        .varint(kColorspace, static_cast<std::uint64_t>(image.channels()))
        .bytes(kEncoded, {reinterpret_cast<const char*>(png.data()), png.size()});
    add_summary(step, ProtoWriter().message(
                          kValue, ProtoWriter().bytes(kTag, tag).message(kImage, picture)));
  }
  void add_text(std::string_view tag, std::string_view markdown, std::int64_t step) override {
    ProtoWriter metadata;
    metadata.message(kPluginData, ProtoWriter().bytes(kPluginName, "text"))
        .varint(kDataClass, kDataClassTensor);
    ProtoWriter tensor;
    tensor.varint(kDtype, kDtypeString)
        .message(kShape, ProtoWriter().message(kDim, ProtoWriter().varint(kDimSize, 1)))
        .bytes(kStringValue, markdown);
    add_summary(step,
                ProtoWriter().message(kValue, ProtoWriter()
                                                  .bytes(kTag, fmt::format("{}/text_summary", tag))
                                                  .message(kMetadata, metadata)
                                                  .message(kTensor, tensor)));
  }
  void add_file(const std::filesystem::path&) override {}
  void add_checkpoint(const std::filesystem::path&, std::int64_t) override {}
  void flush() override {
    const std::lock_guard lock(mutex_);
    file_.sync();
  }
  void close() override {
    monitor_.reset();
    file_.sync();
  }

 private:
  void add_summary(std::int64_t step, const ProtoWriter& summary) {
    const std::lock_guard lock(mutex_);
    file_.add_summary(step, summary);
  }
  /// Of a full disk the run's own scalars tell.
  void write_system(const Scalars& scalars, std::int64_t step) {
    try {
      add_scalars(scalars, step);
    } catch (const core::Error&) {
    }
  }

  std::mutex mutex_;
  EventFile file_;
  std::unique_ptr<SystemMonitor> monitor_;  // ends before what it writes to
};

}  // namespace
SGTRAIN_REGISTER(Logger, TensorBoardLogger, "base_sg_logger", "tensorboard");
}  // namespace sgtrain::loggers
