#include "train/launch_plan.h"

#include <fmt/format.h>

#include <optional>

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

std::optional<int> read_num_gpus(core::Node& root) {
  if (!root.has("num_gpus")) return std::nullopt;
  if (core::fuzzy_key(root.child("num_gpus").tree()->text) == "all") return -1;
  return root.get<int>("num_gpus").in(-1, 1024);
}

/// Number of processes, one per GPU: SuperGradients' rules, and lists of ids.
int count_gpus(core::Node& root, const LaunchPlan& plan) {
  const MultiGpu mode = read_multi_gpu(root);
  const std::optional<int> gpus = read_num_gpus(root);
  if (core::fuzzy_key(plan.device) == "cpu") {
    if (plan.gpus_demanded) {
      root.problem("num_gpus",
                   "--gpus and --device cpu contradict each other: --processes N "
                   "starts several processes on the CPU");
    } else if ((gpus && *gpus != 0 && *gpus != 1) || mode == MultiGpu::kDdp) {
      root.problems()->note(
          "device is cpu: num_gpus and multi_gpu have no effect (processes: N starts several)");
    }
    return 1;
  }
  const auto ids = static_cast<int>(core::split(plan.device, ',').size());
  if (ids > 1 || plan.device.find_first_of("0123456789") != std::string::npos) {
    if (gpus && *gpus != -1 && *gpus != ids) {
      const std::string text = fmt::format("device names {} GPUs, num_gpus is {}", ids, *gpus);
      if (plan.gpus_demanded) root.problem("num_gpus", text);
      root.problems()->note(text + ": device decides");
    }
    return ids;
  }
  if (gpus == 0) root.problem("num_gpus", "0 GPUs: write device: cpu");
  if (mode == MultiGpu::kOff) {
    if (gpus.value_or(1) > 1)
      root.problem("num_gpus", "multi_gpu is Off, so num_gpus must be 1 (or multi_gpu DDP)");
    return 1;
  }
  if (gpus) return *gpus == 0 ? 1 : *gpus;
  return mode == MultiGpu::kUnset && core::fuzzy_key(plan.device) != "all" ? 1 : -1;
}

}  // namespace

LaunchPlan LaunchPlan::from(core::Node& root) {
  LaunchPlan plan;
  plan.device = root.get_or("device", "auto");
  plan.cpu_processes = root.get_or("processes", 1).in(1, 1024);
  core::Node dist = root.child("dist");
  plan.gpus_demanded = dist.get_or("gpus_demanded", false);
  plan.timeout_seconds = dist.get_or("timeout_seconds", plan.timeout_seconds).above(0.0);
  plan.compression = dist.get_or("compression", "none").one_of({"none", "fp16", "bf16"});
  plan.interface = dist.get_or("interface", "").value();
  plan.check_every = dist.get_or("check_every", 0).min(0);
  plan.lr_scaling = root.get_or("lr_scaling", "none").one_of({"none", "linear", "sqrt"});
  if (root.has("lr_scaling_base_batch"))
    plan.lr_scaling_base_batch = root.get<int>("lr_scaling_base_batch").min(1);
  plan.processes = count_gpus(root, plan);
  return plan;
}

}  // namespace sgtrain::train
