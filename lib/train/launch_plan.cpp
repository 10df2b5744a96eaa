#include "train/launch_plan.h"

#include <algorithm>

#include "core/text.h"

namespace sgtrain::train {
namespace {

enum class MultiGpu { kUnset, kOff, kAuto, kDdp };

/// SuperGradients' spellings; YAML's `Off` is false.
MultiGpu read_multi_gpu(core::Node& root) {
  if (!root.has("multi_gpu")) return MultiGpu::kUnset;
  core::Node node = root.child("multi_gpu");
  if (node.kind() == core::Tree::Kind::kBool)
    return node.tree()->boolean ? MultiGpu::kDdp : MultiGpu::kOff;
  const std::string key = core::fuzzy_key(node.as<std::string>());
  if (key == "off" || key == "none") return MultiGpu::kOff;
  if (key == "auto") return MultiGpu::kAuto;
  if (key == "ddp" || key == "distributeddataparallel") return MultiGpu::kDdp;
  if (key == "dp" || key == "dataparallel") {
    node.problem(
        "DP (threads of one process) is not supported; use DDP: one process per GPU, faster and "
        "exact");
  } else {
    node.problem("must be Off, AUTO or DDP, found '" + node.tree()->text + "'");
  }
  return MultiGpu::kUnset;
}

}  // namespace

LaunchPlan LaunchPlan::from(core::Node& root) {
  LaunchPlan plan;
  plan.device = root.get_or("device", "auto");
  const MultiGpu mode = read_multi_gpu(root);
  std::optional<int> gpus;
  if (root.has("num_gpus")) {
    if (core::fuzzy_key(root.child("num_gpus").tree()->text) == "all") {
      gpus = -1;
    } else {
      gpus = root.get<int>("num_gpus").in(-1, 1024);
    }
  }
  const int cpu_processes = root.get_or("processes", 1).in(1, 1024);

  core::Node dist = root.child("dist");
  plan.gpus_demanded = dist.get_or("gpus_demanded", false);
  plan.timeout_seconds = dist.get_or("timeout_seconds", plan.timeout_seconds).above(0.0);
  plan.compression = dist.get_or("compression", "none").one_of({"none", "fp16", "bf16"});
  plan.interface = dist.get_or("interface", "").value();
  plan.check_every = dist.get_or("check_every", 0).min(0);
  plan.lr_scaling = root.get_or("lr_scaling", "none").one_of({"none", "linear", "sqrt"});
  if (root.has("lr_scaling_base_batch"))
    plan.lr_scaling_base_batch = root.get<int>("lr_scaling_base_batch").min(1);

  if (core::fuzzy_key(plan.device) == "cpu") {
    plan.processes = cpu_processes;
    return plan;
  }
  if (plan.device.find(',') != std::string::npos) {  // a list of ids starts one process each
    plan.processes = static_cast<int>(core::split(plan.device, ',').size());
    return plan;
  }
  if (mode == MultiGpu::kOff) {
    if (gpus && *gpus > 1)
      root.problem("num_gpus", "multi_gpu is Off, so num_gpus must be 1 (or multi_gpu DDP)");
    return plan;
  }
  if (gpus && *gpus == 0) root.problem("num_gpus", "0 GPUs: write device: cpu");
  if (gpus) {
    plan.processes = *gpus == 0 ? 1 : *gpus;
  } else if (mode != MultiGpu::kUnset) {
    plan.processes = -1;
  }
  // A run that turns out to have no GPU computes on the CPU with this many processes.
  if (cpu_processes > 1 && plan.processes == 1) plan.processes = cpu_processes;
  return plan;
}

}  // namespace sgtrain::train
