#include "loggers/gpu_usage.h"

#include <dlfcn.h>

namespace sgtrain::loggers {
namespace {

// The part of nvml.h (NVML API reference, stable C ABI) that is used here.
using Device = void*;
struct Utilisation {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};

class Nvml {
 public:
  Nvml() {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    int (*init)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*handle)(unsigned, Device*) = nullptr;
    unsigned devices = 0;
    const bool usable = find(init, "nvmlInit_v2") && find(count, "nvmlDeviceGetCount_v2") &&
                        find(handle, "nvmlDeviceGetHandleByIndex_v2") &&
                        find(utilisation_, "nvmlDeviceGetUtilizationRates") &&
                        find(memory_, "nvmlDeviceGetMemoryInfo") && init() == 0 &&
                        count(&devices) == 0;
    for (unsigned i = 0; usable && i < devices; ++i) {
      Device device = nullptr;
      if (handle(i, &device) == 0) devices_.push_back(device);
    }
  }

  std::vector<GpuUsage> usage() const {
    std::vector<GpuUsage> out;
    for (Device device : devices_) {
      Utilisation time{};
      Memory memory{};
      if (utilisation_(device, &time) != 0 || memory_(device, &memory) != 0) return {};
      out.push_back({.busy = static_cast<double>(time.gpu),
                     .memory_busy = static_cast<double>(time.memory),
                     .memory_allocated = 100.0 * static_cast<double>(memory.used) /
                                         static_cast<double>(memory.total)});
    }
    return out;
  }

 private:
  int (*utilisation_)(Device, Utilisation*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  std::vector<Device> devices_;
};

}  // namespace

std::vector<GpuUsage> gpu_usage() {
  static const Nvml nvml;
  return nvml.usage();
}

}  // namespace sgtrain::loggers
