#include <fmt/format.h>
#include <sys/utsname.h>
#include <torch/headeronly/version.h>

#include <opencv2/core/version.hpp>

#include "command.h"
#include "core/atomic_file.h"
#include "core/log.h"
#include "tensor/device.h"
#include "version.h"

namespace sgtrain::app {
namespace {

void row(std::string_view name, const std::string& value) {
  core::log::result("{:<22}{}\n", name, value);
}

std::string cpu_row() {
  const auto features = tensor::cpu_features();
  std::string text;
  const auto add = [&](bool has, const char* name) {
    if (has) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(features.avx2, "AVX2");
  add(features.avx512, "AVX-512");
  add(features.avx512_bf16, "AVX512-BF16");
  add(features.amx_bf16, "AMX-BF16");
  return text.empty() ? "none of AVX2, AVX-512, AMX" : text;
}

int doctor() {
  utsname system{};
  uname(&system);
  row("sgtrain", SGTRAIN_VERSION);
  row("LibTorch", TORCH_VERSION);
  row("OpenCV", CV_VERSION);
  row("compiler", "GNU " __VERSION__);
  row("system", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  row("CPU", tensor::describe_device(at::kCPU));
  row("CPU features", cpu_row());
  row("cores usable", std::to_string(tensor::usable_cores()));
  row("precision auto (CPU)",
      std::string(tensor::precision_name(tensor::resolve_precision("auto", at::kCPU))));
  const int gpus = tensor::gpu_count();
  row("GPUs", gpus > 0 ? std::to_string(gpus) : "none: " + tensor::why_no_gpu());
  for (int i = 0; i < gpus; ++i) {
    row(fmt::format("  cuda:{}", i),
        tensor::describe_device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(i))));
  }
  row("free disk here", core::human_bytes(core::free_space(".")));
  return 0;
}

}  // namespace

void add_doctor(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("doctor", "Versions, devices and libraries");
  command->callback([&action] { action = doctor; });
}

}  // namespace sgtrain::app
