// What each built-in callback does, told of moments by hand.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "losses/assigner.h"
#include "support/component.h"
#include "support/temp_dir.h"
#include "train/run.h"

using namespace sgtrain;
using core::Tree;
using support::ComponentKeys;
using support::make_component;
using train::Callback;
using train::PhaseContext;

namespace {

struct NoModel final : models::Model {
  models::Task task() const override { return models::Task::kDetection; }
  tensor::ModelOutput run(const at::Tensor&) override { return {}; }
  int num_classes() const override { return 2; }
  int input_channels() const override { return 3; }
  void replace_head(int) override {}
  void replace_input_channels(int) override {}
};

struct TwoPartLoss final : losses::Loss {
  losses::LossResult operator()(const tensor::ModelOutput&, const tensor::Targets&) override {
    return {};
  }
  std::string name() const override { return "TwoPartLoss"; }
  std::vector<std::string> component_names() const override {
    return {"TwoPartLoss/loss_a", "TwoPartLoss/loss_b"};
  }
};

/// Scores a batch by its brightest prediction.
class LargestScore final : public metrics::Metric {
 public:
  void reset() override { value_ = 0.0; }
  void update(const metrics::MetricInput& input) override {
    value_ = input.output["scores"].max().item<double>();
  }
  std::vector<metrics::MetricValue> describe() const override { return {{"Largest", 0.0, true}}; }
  std::vector<metrics::MetricValue> compute() override { return {{"Largest", value_, true}}; }
  std::vector<at::Tensor> state() const override { return {}; }
  void merge(const std::vector<at::Tensor>&) override {}

 private:
  double value_ = 0.0;
};
using metrics::Metric;
SGTRAIN_REGISTER(Metric, LargestScore, "LargestScore");

struct LoggedImage {
  std::string tag;
  cv::Mat image;
  std::int64_t step;
};
struct Logged {
  std::vector<LoggedImage> images;
  std::vector<std::tuple<std::string, double, std::int64_t>> scalars;
};

class RecordingLogger final : public loggers::Logger {
 public:
  explicit RecordingLogger(Logged& logged) : logged_(logged) {}
  std::string name() const override { return "recording"; }
  void add_config(std::string_view, std::string_view) override {}
  void add_scalars(const loggers::Scalars& scalars, std::int64_t step) override {
    for (const auto& [tag, value] : scalars) logged_.scalars.emplace_back(tag, value, step);
  }
  void add_image(std::string_view tag, const cv::Mat& image, std::int64_t step) override {
    logged_.images.push_back({std::string(tag), image, step});  // no copy: the callback's duty
  }
  void add_text(std::string_view, std::string_view, std::int64_t) override {}
  void add_file(const std::filesystem::path&) override {}
  void add_checkpoint(const std::filesystem::path&, std::int64_t) override {}
  void flush() override {}
  void close() override {}

 private:
  Logged& logged_;
};

/// A run that stands still, and a batch of two grey images with one box and one prediction each.
struct Scene {
  Logged logged;
  train::Run run;
  NoModel model;
  TwoPartLoss loss;
  train::TrainState state;
  train::NamedValues metrics;
  tensor::Batch batch;
  tensor::ModelOutput output;
  std::vector<double> losses{1.0, 2.0};
  bool is_main = true;

  explicit Scene(int grey = 100) {
    run.logger = std::make_unique<RecordingLogger>(logged);
    run.class_names = {"one", "two"};
    batch.images = at::full({2, 64, 300, 3}, grey, at::kByte);
    batch.targets.boxes =
        at::tensor({0.0F, 0.0F, 20.0F, 40.0F, 20.0F, 20.0F, 1.0F, 1.0F, 70.0F, 40.0F, 20.0F, 20.0F})
            .reshape({2, 6});
    batch.indices = {0, 1};
    output = {
        {"boxes", at::tensor({200.0F, 30.0F, 220.0F, 50.0F}).reshape({1, 1, 4}).repeat({2, 1, 1})},
        {"scores", at::tensor({0.9F, 0.1F}).reshape({1, 1, 2}).repeat({2, 1, 1})}};
  }

  PhaseContext at(int epoch, int batch_index) {
    state.epoch = epoch;
    return {.state = state,
            .model = model,
            .loss = loss,
            .metrics = metrics,
            .run = &run,
            .batch_index = batch_index,
            .batch = &batch,
            .targets = &batch.targets,
            .output = &output,
            .losses = &losses,
            .watched = "Accuracy",
            .is_main = is_main};
  }
};

core::TreePtr postprocess() {
  return support::map_of({{"PPYoloEPostPredictionCallback",
                           support::map_of({{"score_threshold", Tree::of(0.5)},
                                            {"nms_threshold", Tree::of(0.5)},
                                            {"nms_top_k", Tree::of(std::int64_t{10})},
                                            {"max_predictions", Tree::of(std::int64_t{10})}})}});
}

core::TreePtr number(std::int64_t value) {
  return Tree::of(value);
}

/// Whether anything but the grey is within the rectangle.
bool drawn(const cv::Mat& image, const cv::Rect& where, int grey) {
  const cv::Mat part = image(where);
  for (int y = 0; y < part.rows; ++y) {
    for (int x = 0; x < part.cols; ++x) {
      if (part.at<cv::Vec3b>(y, x) != cv::Vec3b::all(static_cast<unsigned char>(grey))) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("multiscale: sizes in range, boxes in their pixels, the same on every rank", "[train]") {
  Scene scene;
  const auto make = [] {
    return make_component<Callback>("DetectionMultiscalePrePredictionCallback",
                                    {{"multiscale_range", number(2)},
                                     {"image_size_steps", number(32)},
                                     {"change_frequency", number(3)}});
  };
  const auto callback = make(), other_rank = make();
  std::set<std::int64_t> heights;
  std::vector<std::int64_t> by_batch;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int index = 0; index < 60; ++index) {
      at::Tensor images = at::full({1, 3, 128, 256}, 0.5), again = images;
      tensor::Targets targets, same;
      targets.boxes = at::tensor({0.0F, 1.0F, 64.0F, 32.0F, 20.0F, 10.0F}).reshape({1, 6});
      targets.crowd_boxes = targets.boxes.clone();
      same = targets;
      const at::Tensor before = targets.boxes.clone();
      PhaseContext now = scene.at(epoch, index);
      callback->before_forward(images, targets, now);
      other_rank->before_forward(again, same, now);
      CHECK(images.sizes() == again.sizes());
      const std::int64_t height = images.size(2), width = images.size(3);
      CHECK(height % 32 == 0);
      CHECK((height >= 64 && height <= 192));
      CHECK(width == 2 * height);
      CHECK(at::allclose(images, at::full({}, 0.5)));
      const double scale = static_cast<double>(height) / 128.0;
      const at::Tensor factors = at::tensor({1.0, 1.0, scale, scale, scale, scale}, at::kFloat);
      CHECK(at::allclose(targets.boxes, before * factors));
      CHECK(at::allclose(targets.crowd_boxes, before * factors));
      heights.insert(height);
      by_batch.push_back(height);
    }
  }
  CHECK(heights == std::set<std::int64_t>{64, 96, 128, 160, 192});
  for (std::size_t i = 0; i < by_batch.size(); ++i) CHECK(by_batch[i] == by_batch[i - i % 3]);
  CHECK_FALSE(std::equal(by_batch.begin(), by_batch.begin() + 60, by_batch.begin() + 60));

  const auto still = make_component<Callback>("DetectionMultiscalePrePredictionCallback",
                                              {{"multiscale_range", number(0)}});
  at::Tensor images = at::rand({1, 3, 64, 64});
  const at::Tensor before = images;
  tensor::Targets targets;
  PhaseContext now = scene.at(0, 0);
  still->before_forward(images, targets, now);
  CHECK(images.is_same(before));
}

TEST_CASE("DetectionVisualization: one batch of every n-th epoch, truth beside predictions",
          "[train]") {
  Scene scene;
  const auto callback = make_component<Callback>("DetectionVisualizationCallback",
                                                 {{"phase", Tree::of("VALIDATION_BATCH_END")},
                                                  {"freq", number(2)},
                                                  {"post_prediction_callback", postprocess()},
                                                  {"batch_idx", number(1)}});
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int index = 0; index < 3; ++index) {
      PhaseContext now = scene.at(epoch, index);
      callback->on_validation_batch_end(now);
      callback->on_train_batch_loss_end(now);  // another phase
    }
  }
  REQUIRE(scene.logged.images.size() == 4);  // two images in epochs 0 and 2
  CHECK(scene.logged.images[0].tag == "batch_1_images/0");
  CHECK(scene.logged.images[1].tag == "batch_1_images/1");
  CHECK(scene.logged.images[0].step == 0);
  CHECK(scene.logged.images[3].step == 2);
  const cv::Mat& picture = scene.logged.images[0].image;
  REQUIRE(picture.size() == cv::Size(2 * 300, 64));
  const cv::Rect truth(8, 28, 24, 24), prediction(198, 28, 24, 24), right(300, 0, 0, 0);
  CHECK(drawn(picture, truth, 100));
  CHECK_FALSE(drawn(picture, prediction, 100));
  CHECK(drawn(picture, prediction + right.tl(), 100));
  CHECK_FALSE(drawn(picture, truth + right.tl(), 100));

  SECTION("the first image alone, in training, on rank 0 alone") {
    const auto first = make_component<Callback>("DetectionVisualizationCallback",
                                                {{"phase", Tree::of("TRAIN_BATCH_END")},
                                                 {"post_prediction_callback", postprocess()},
                                                 {"last_img_idx_in_batch", number(0)}});
    scene.logged.images.clear();
    PhaseContext now = scene.at(0, 0);
    first->on_train_batch_loss_end(now);
    CHECK(scene.logged.images.size() == 1);
    scene.is_main = false;
    PhaseContext elsewhere = scene.at(0, 0);
    first->on_train_batch_loss_end(elsewhere);
    CHECK(scene.logged.images.size() == 1);
  }
  CHECK_THROWS_WITH(make_component<Callback>("DetectionVisualizationCallback",
                                             {{"phase", Tree::of("TRAIN_EPOCH_END")},
                                              {"post_prediction_callback", postprocess()}}),
                    Catch::Contains("end of a batch"));
}

TEST_CASE("ExtremeBatch: the batch with the greatest or smallest value of an epoch", "[train]") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  // Values of the batches of an epoch; the grey of a batch is its number.
  const auto epoch = [](Callback& callback, Scene& scene, int number,
                        const std::vector<double>& values) {
    scene.logged.images.clear();
    for (std::size_t i = 0; i < values.size(); ++i) {
      scene.batch.images.fill_(static_cast<int>(10 * (i + 1)));  // the same memory each time
      scene.losses = {0.0, values[i]};
      scene.output = {{"boxes", scene.output["boxes"]},
                      {"scores", at::full({2, 1, 2}, std::isfinite(values[i]) ? values[i] : 0.0)}};
      PhaseContext now = scene.at(number, static_cast<int>(i));
      callback.on_validation_batch_end(now);
    }
    PhaseContext now = scene.at(number, 0);
    callback.on_validation_loader_end(now);
    std::vector<int> greys;
    for (const auto& logged : scene.logged.images) {
      CHECK(logged.tag.starts_with("val_extreme_batch/"));
      CHECK(logged.step == number);
      greys.push_back(logged.image.at<cv::Vec3b>(0, 0)[0]);
    }
    return greys;
  };
  using Greys = std::vector<int>;
  Scene scene;
  SECTION("a loss") {
    const auto smallest =
        make_component<Callback>("ExtremeBatchDetectionVisualizationCallback",
                                 {{"loss_to_monitor", Tree::of("TwoPartLoss/loss_b")},
                                  {"post_prediction_callback", postprocess()}});
    CHECK(epoch(*smallest, scene, 0, {0.5, 0.2, kNaN, 0.3}) == Greys{20, 20});
    CHECK(epoch(*smallest, scene, 1, {0.5, 0.6, 0.4}) == Greys{30, 30});  // begins anew
    const auto greatest = make_component<Callback>("ExtremeBatchDetectionVisualizationCallback",
                                                   {{"loss_to_monitor", Tree::of("loss_b")},
                                                    {"max", Tree::of(true)},
                                                    {"freq", number(2)},
                                                    {"max_images", number(1)},
                                                    {"post_prediction_callback", postprocess()}});
    CHECK(epoch(*greatest, scene, 0, {0.5, 0.2, kNaN, 0.3}) == Greys{10});
    CHECK(epoch(*greatest, scene, 1, {0.5, 0.9}).empty());
  }
  SECTION("a metric") {
    const auto greatest = make_component<Callback>("ExtremeBatchDetectionVisualizationCallback",
                                                   {{"metric", Tree::of("LargestScore")},
                                                    {"metric_component_name", Tree::of("largest")},
                                                    {"max", Tree::of(true)},
                                                    {"post_prediction_callback", postprocess()}});
    CHECK(epoch(*greatest, scene, 0, {0.6, 0.8, 0.7}) == Greys{20, 20});
  }
  SECTION("the training loader") {
    const auto train = make_component<Callback>("ExtremeBatchDetectionVisualizationCallback",
                                                {{"loss_to_monitor", Tree::of("loss_b")},
                                                 {"enable_on_train_loader", Tree::of(true)},
                                                 {"enable_on_valid_loader", Tree::of(false)},
                                                 {"post_prediction_callback", postprocess()}});
    CHECK(epoch(*train, scene, 0, {0.5, 0.2}).empty());
    PhaseContext now = scene.at(0, 0);
    train->on_train_batch_loss_end(now);
    train->on_train_loader_end(now);
    REQUIRE(scene.logged.images.size() == 2);
    CHECK(scene.logged.images[1].tag == "train_extreme_batch/1");
  }
  SECTION("mistakes") {
    const auto unknown = make_component<Callback>(
        "ExtremeBatchDetectionVisualizationCallback",
        {{"loss_to_monitor", Tree::of("loss_c")}, {"post_prediction_callback", postprocess()}});
    PhaseContext now = scene.at(0, 0);
    CHECK(unknown->on_validation_batch_end(now).stop_training);
    CHECK_THROWS_WITH(make_component<Callback>("ExtremeBatchDetectionVisualizationCallback",
                                               {{"post_prediction_callback", postprocess()}}),
                      Catch::Contains("either metric or loss_to_monitor"));
  }
}

TEST_CASE("PPYoloE's stage switch: static assignment until its epoch, also after a resume",
          "[train]") {
  Scene scene;
  const auto loss = make_component<losses::Loss>("PPYoloELoss", {{"num_classes", number(2)}});
  auto* assigner = dynamic_cast<losses::StaticAssignerSwitch*>(loss.get());
  REQUIRE(assigner != nullptr);
  const auto starts = [&](Callback& callback, int epoch) {
    scene.state.epoch = epoch;
    PhaseContext now{
        .state = scene.state, .model = scene.model, .loss = *loss, .metrics = scene.metrics};
    CHECK_FALSE(callback.on_train_loader_start(now).stop_training);
    return assigner->uses_static_assigner();
  };
  const ComponentKeys keys{{"static_assigner_end_epoch", number(2)}};
  const auto callback = make_component<Callback>("PPYoloETrainingStageSwitchCallback", keys);
  CHECK(starts(*callback, 0));
  CHECK(starts(*callback, 1));
  CHECK_FALSE(starts(*callback, 2));
  CHECK_FALSE(starts(*callback, 3));
  const auto resumed = make_component<Callback>("PPYoloETrainingStageSwitchCallback", keys);
  CHECK(starts(*resumed, 1));
  CHECK_FALSE(starts(*resumed, 5));
  PhaseContext other = scene.at(0, 0);  // a loss without such a switch
  CHECK(callback->on_train_loader_start(other).stop_training);
}

TEST_CASE("timers measure batches, loaders and epochs", "[train]") {
  Scene scene;
  const auto callback = make_component<Callback>("TimerCallback");
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
  scene.state.global_step = 7;
  PhaseContext now = scene.at(2, 0);
  callback->on_train_loader_start(now);
  pause();
  callback->on_train_batch_start(now);
  pause();
  callback->on_train_batch_end(now);
  callback->on_train_loader_end(now);
  callback->on_validation_loader_start(now);
  callback->on_validation_batch_start(now);
  pause();
  callback->on_validation_batch_end(now);
  callback->on_validation_loader_end(now);
  const auto value = [&](const std::string& name, std::int64_t wanted_step) {
    for (const auto& [tag, number, step] : scene.logged.scalars) {
      if (tag != name) continue;
      CHECK(step == wanted_step);
      return number;
    }
    FAIL("no " << name);
    return 0.0;
  };
  const double batch = value("timer/train_batch_ms", 7);
  CHECK(batch >= 10.0);
  CHECK(value("timer/train_loader_sec", 2) >= 0.020);
  CHECK(value("timer/epoch_sec", 2) >= batch / 1e3 + 0.010);
  CHECK(value("timer/val_batch_ms", 7) >= 10.0);
  CHECK(value("timer/val_loader_sec", 2) >= 0.010);
  CHECK(scene.logged.scalars.size() == 5);
}

TEST_CASE("ImageLogging: the first k images of every n-th batch, as they were", "[train]") {
  Scene scene;
  const auto defaults = make_component<Callback>("ImageLoggingCallback");
  scene.batch.images = at::full({5, 8, 12, 3}, 7, at::kByte);
  scene.state.global_step = 40;
  PhaseContext now = scene.at(1, 3);
  defaults->on_train_batch_loss_end(now);
  scene.batch.images.fill_(200);  // the batch's memory is used again
  REQUIRE(scene.logged.images.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(scene.logged.images[i].tag == "train_images/" + std::to_string(i));
    CHECK(scene.logged.images[i].step == 40);
    CHECK(scene.logged.images[i].image.size() == cv::Size(12, 8));
    CHECK_FALSE(drawn(scene.logged.images[i].image, {0, 0, 12, 8}, 7));
  }
  scene.logged.images.clear();
  const auto some = make_component<Callback>(
      "ImageLoggingCallback", {{"k", number(9)}, {"n", number(2)}, {"tag", Tree::of("seen")}});
  for (int index = 0; index < 4; ++index) {
    PhaseContext each = scene.at(0, index);
    some->on_train_batch_loss_end(each);
  }
  CHECK(scene.logged.images.size() == 2 * 5);  // batches 0 and 2, five images each
  CHECK(scene.logged.images.front().tag == "seen/0");
}

TEST_CASE("ShellCallback: values are one word of the shell, a command that hangs is ended",
          "[train]") {
  const support::TempDir folder;
  Scene scene;
  const std::string out = (folder.path() / "out").string();
  scene.run.dir = folder.path() / "a b'; touch pwned; echo '";
  scene.metrics = {{"Accuracy", 0.25}, {"mAP@0.50", 0.5}};
  const auto say = make_component<Callback>(
      "ShellCallback",
      {{"phase", Tree::of("TRAIN_EPOCH_END")},
       {"command", Tree::of("printf '%s|' {run_dir} {metric} {mAP@0.50} {epoch} >" + out)}});
  PhaseContext now = scene.at(4, 0);
  say->on_validation_loader_end(now);
  CHECK_FALSE(std::filesystem::exists(out));
  say->on_train_loader_end(now);
  std::ifstream file(out);
  std::string text;
  std::getline(file, text);
  CHECK(text == scene.run.dir.string() + "|0.25|0.5|4|");
  CHECK_FALSE(std::filesystem::exists("pwned"));

  const auto hangs =
      make_component<Callback>("ShellCallback", {{"phase", Tree::of("TRAIN_EPOCH_END")},
                                                 {"timeout", Tree::of(0.2)},
                                                 {"command", Tree::of("sleep 100")}});
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(hangs->on_train_loader_end(now).stop_training);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(50));
}
