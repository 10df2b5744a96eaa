#include "train/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "dist/launcher.h"
#include "tensor/device.h"

namespace sgtrain::train {
namespace {

/// cpu, auto, all, cuda, gpu, cuda:N, or a list of numbers.
void refuse_unknown(const std::string& device) {
  static const std::vector<std::string> kNames{"cpu", "cuda", "auto", "all", "gpu"};
  std::string text = core::lower(core::trim(device));
  if (text.empty() || std::find(kNames.begin(), kNames.end(), text) != kNames.end()) return;
  if (text.starts_with("cuda:")) text.erase(0, 5);
  if (text.find_first_not_of("0123456789, ") == std::string::npos) return;
  throw core::InputError("unknown device '" + device + "'" + core::did_you_mean(device, kNames),
                         "device", "cpu, cuda, cuda:1, or GPU numbers such as 0,2,3");
}

}  // namespace

Places decide_places(const LaunchPlan& plan) {
  refuse_unknown(plan.device);
  const Places cpu{plan.cpu_processes, "cpu"};
  if (!tensor::asks_for_gpu(plan.device) && plan.device != "auto") return cpu;
  const int gpus = tensor::gpu_count();
  if (gpus == 0) {
    if (plan.gpus_demanded || tensor::asks_for_gpu(plan.device)) {
      throw core::InputError("GPUs were asked for, but none can be used: " + tensor::why_no_gpu(),
                             "--gpus, --device",
                             "train on the CPU with --device cpu --processes N");
    }
    if (plan.processes != 1) {
      core::log::warning("the recipe asks for {} GPUs, but none can be used ({}): on the CPU",
                         plan.processes < 0 ? "all" : std::to_string(plan.processes),
                         tensor::why_no_gpu());
    }
    return cpu;
  }
  if (plan.cpu_processes > 1)
    core::log::warning("processes: {} is for device: cpu; on GPUs num_gpus decides",
                       plan.cpu_processes);
  if (tensor::asks_for_gpu(plan.device)) tensor::resolve_device(plan.device);  // names what lacks
  int processes = plan.processes < 0 ? gpus : plan.processes;
  // A launcher that shows each process only its own GPU has counted already.
  if (processes > gpus && !dist::World::current().joined) {
    if (plan.gpus_demanded) {
      throw core::InputError(
          fmt::format("{} GPUs were asked for, but there are {}", processes, gpus), "--gpus",
          "ask for fewer, or use --device cpu --processes N");
    }
    core::log::warning("the recipe asks for {} GPUs, but there are {}: using {}", processes, gpus,
                       gpus);
    processes = gpus;
  }
  return {processes, plan.device == "auto" ? "cuda" : plan.device};
}

}  // namespace sgtrain::train
