// Times training steps (forward, loss, backward) of one architecture on synthetic data, for
// scripts/bench/train_step.py:
//   train_step_tool ARCHITECTURE SIZE BATCH fp32|bf16 STEPS [THREADS]
// With RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT it is one of several processes, BATCH that of
// each. Prints one line of JSON: seconds and processor seconds of every step, peak resident memory
// in MiB, milliseconds a step in which gradients were under way and the share of them during
// backward.
#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "dist/factory.h"
#include "dist/reducer.h"
#include "dist/sync.h"
#include "losses/loss.h"
#include "models/model.h"
#include "support/build_model.h"
#include "tensor/device.h"
#include "train/replicas.h"
#include "train/step.h"

namespace sgtrain {
namespace {

std::unique_ptr<losses::Loss> make_loss(models::Task task, std::int64_t classes) {
  core::TreePtr tree = core::Tree::make_map();
  const bool detection = task == models::Task::kDetection;
  if (detection) {
    tree->set("num_classes", core::Tree::of(classes));
    tree->set("use_static_assigner", core::Tree::of(false));
  }
  core::Node node(tree, std::make_shared<core::Problems>());
  const auto maker = losses::Loss::registry().parse(
      {.name = detection ? "PPYoloELoss" : "CrossEntropyLoss", .params = node});
  node.problems()->throw_if_any("loss");
  return maker();
}

/// Ten boxes per image, or one class per image.
tensor::Targets make_targets(models::Task task, int batch, double size, std::int64_t classes) {
  tensor::Targets targets;
  if (task == models::Task::kClassification) {
    targets.labels = at::randint(classes, {batch}, at::kLong);
    return targets;
  }
  constexpr int kPerImage = 10;
  const at::Tensor index = at::arange(batch, at::kFloat).repeat_interleave(kPerImage).unsqueeze(1);
  const at::Tensor cls = at::randint(classes, {batch * kPerImage, 1}, at::kFloat);
  const at::Tensor centre = at::rand({batch * kPerImage, 2}) * (0.5 * size) + 0.25 * size;
  const at::Tensor side = at::rand({batch * kPerImage, 2}) * (0.4 * size) + 8.0;
  targets.boxes = at::cat({index, cls, centre, side}, 1);
  return targets;
}

rusage usage() {
  rusage out{};
  getrusage(RUSAGE_SELF, &out);
  return out;
}
double cpu_seconds() {
  const rusage u = usage();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

int run(const std::vector<std::string>& args) {
  const std::string& name = args.at(1);
  const int size = std::stoi(args.at(2)), batch = std::stoi(args.at(3)),
            steps = std::stoi(args.at(5));
  const at::ScalarType precision = tensor::resolve_precision(args.at(4), at::kCPU);
  tensor::set_threads(args.size() > 6 ? std::stoi(args[6]) : 0);
  tensor::keep_memory();
  const auto comm = dist::make_communicator(dist::World::current(), at::Device(at::kCPU));
  at::manual_seed(1);
  constexpr int kDetectionClasses = 80, kImageClasses = 1000;
  const std::int64_t classes = name.starts_with("yolo") ? kDetectionClasses : kImageClasses;
  auto model = support::build_model(name, classes);
  model->to_channels_last();
  model->train();
  auto loss = make_loss(model->task(), classes);
  dist::broadcast_state(*comm, model->state());
  dist::Reducer reducer(*comm, train::reduced_parameters(*model));
  at::manual_seed(2 + static_cast<std::uint64_t>(comm->rank()));
  const at::Tensor images =
      at::rand({batch, 3, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const tensor::Targets targets = make_targets(model->task(), batch, size, classes);
  const auto parameters = model->parameters();
  std::string times, cpu_times;
  for (int step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_begin = cpu_seconds();
    for (const at::Tensor& p : parameters) {
      if (p.grad().defined()) p.mutable_grad().zero_();
    }
    reducer.before_forward();
    at::Tensor value;
    {
      const tensor::AutocastGuard autocast(at::kCPU, precision);
      value = train::globalise((*loss)(model->run(images), targets), batch, *comm).total;
    }
    reducer.backward(value);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    times += (times.empty() ? "" : ", ") + std::to_string(seconds.count());
    cpu_times += (cpu_times.empty() ? "" : ", ") + std::to_string(cpu_seconds() - cpu_begin);
  }
  const auto traffic = reducer.traffic();
  std::printf(
      "{\"seconds\": [%s], \"cpu_seconds\": [%s], \"peak_mib\": %.1f, \"communication_ms\": %.2f, "
      "\"hidden\": %.3f}\n",
      times.c_str(), cpu_times.c_str(), static_cast<double>(usage().ru_maxrss) / 1024.0,
      1e3 * traffic.seconds / static_cast<double>(std::max<std::int64_t>(traffic.steps, 1)),
      traffic.hidden_share());
  return 0;
}

}  // namespace
}  // namespace sgtrain

int main(int argc, char** argv) {
  try {
    return sgtrain::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_step_tool: %s\n", error.what());
    return 1;
  }
}
