#include "tensor/device.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/cpu/Utils.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>

#include "core/error.h"
#include "core/process.h"
#include "core/text.h"
#include "tensor/cuda_module.h"

namespace sgtrain::tensor {
namespace {

struct Gpus {
  int count = 0;
  std::string why_none;
};
const Gpus& gpus() {
  static const Gpus found = [] {
    Gpus out;
    if (const CudaModule* module = cuda_module()) {
      out.count = module->device_count(out.why_none);
    } else {
      out.why_none = cuda_module_problem();
    }
    return out;
  }();
  return found;
}

const CudaModule& module_for(at::Device device) {
  const CudaModule* module = cuda_module();
  if (module == nullptr) {
    throw core::Error("cannot use " + device.str() + ": " + cuda_module_problem());
  }
  return *module;
}

[[noreturn]] void wrong_device(std::string_view text, std::string_view why) {
  throw core::InputError(fmt::format("device '{}': {}", text, why), {},
                         "use cpu, cuda, cuda:1, a list of GPUs such as 0,2,3, all or auto");
}

std::string gpus_there() {
  const int count = gpu_count();
  if (count == 0) return "there is no GPU to use: " + why_no_gpu();
  return count == 1 ? "there is 1 GPU (0)"
                    : fmt::format("there are {} GPUs (0..{})", count, count - 1);
}

std::optional<int> small_number(std::string_view text) {
  if (text.empty() || text.size() > 4 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return std::stoi(std::string(text));
}

at::Device gpu(int index) {
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

std::vector<at::Device> listed_gpus(std::string_view text) {
  std::vector<at::Device> out;
  for (const std::string& raw : core::split(text, ',')) {
    std::string item(core::trim(raw));
    if (item.starts_with("cuda:")) item.erase(0, 5);
    const auto index = small_number(item);
    if (!index) wrong_device(text, "not a device");
    if (*index >= gpu_count()) wrong_device(text, gpus_there());
    if (std::find(out.begin(), out.end(), gpu(*index)) != out.end()) {
      wrong_device(text, fmt::format("GPU {} is named twice", *index));
    }
    out.push_back(gpu(*index));
  }
  return out;
}

// First line of a file that a control group offers, empty when there is none.
std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// CPUs that the control group grants by quota; infinity when it has no limit.
double quota_cores() {
  const auto ratio = [](const std::string& quota, const std::string& period) {
    const double q = std::atof(quota.c_str()), p = std::atof(period.c_str());
    return q > 0 && p > 0 ? q / p : INFINITY;
  };
  const std::string v2 = first_line("/sys/fs/cgroup/cpu.max");  // "200000 100000" or "max 100000"
  if (!v2.empty()) {
    const auto parts = core::split(v2, ' ');
    return parts.size() == 2 ? ratio(parts[0], parts[1]) : INFINITY;
  }
  return ratio(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
               first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) {
      return std::string(core::trim(line.substr(line.find(':') + 1)));
    }
  }
  return "unknown";
}

at::ScalarType automatic_precision(at::Device device) {
  if (device.is_cuda()) {
    const int capability = module_for(device).compute_capability(device.index());
    return capability >= 80 ? at::kBFloat16 : capability >= 70 ? at::kHalf : at::kFloat;
  }
  const CpuFeatures features = cpu_features();
  return features.avx512_bf16 || features.amx_bf16 ? at::kBFloat16 : at::kFloat;
}

// State of one generator as bytes, behind its length.
void append_state(std::string& out, at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  const at::Tensor state = generator.get_state().contiguous();
  const std::uint64_t size = state.nbytes();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(static_cast<const char*>(state.const_data_ptr()), size);
}

void take_state(std::string_view& in, at::Device device) {
  std::uint64_t size = 0;
  const auto broken = [] {
    return core::Error("the saved state of the random generators is damaged");
  };
  if (in.size() < sizeof size) throw broken();
  std::memcpy(&size, in.data(), sizeof size);
  in.remove_prefix(sizeof size);
  if (size > in.size()) throw broken();
  at::Tensor state = at::empty({static_cast<std::int64_t>(size)}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), in.data(), size);
  in.remove_prefix(size);
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error&) {
    throw broken();
  }
}

}  // namespace

int gpu_count() {
  return gpus().count;
}
std::string why_no_gpu() {
  return gpus().why_none;
}

bool asks_for_gpu(std::string_view text) {
  const std::string key = core::lower(core::trim(text));
  return !key.empty() && key != "cpu" && key != "auto";
}

std::vector<at::Device> resolve_device(std::string_view text) {
  std::string key = core::lower(core::trim(text));
  if (key == "cpu") return {at::Device(at::kCPU)};
  if (key.empty() || key == "auto") {
    return {gpu_count() > 0 ? gpu(0) : at::Device(at::kCPU)};
  }
  if (key == "cuda" || key == "gpu") key = "0";
  if (key == "all") {
    if (gpu_count() == 0) wrong_device(text, gpus_there());
    std::vector<at::Device> out;
    for (int i = 0; i < gpu_count(); ++i) out.push_back(gpu(i));
    return out;
  }
  return listed_gpus(key);
}

void use_device(at::Device device) {
  if (device.is_cuda()) module_for(device).set_device(device.index());
}

std::string describe_device(at::Device device) {
  if (device.is_cuda()) {
    return device.str() + ": " + module_for(device).describe(device.index());
  }
  const int threads = at::get_num_threads();
  return fmt::format("cpu: {}, {} thread{}", cpu_name(), threads, threads == 1 ? "" : "s");
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  const double quota = quota_cores();
  if (quota < cores) cores = static_cast<int>(std::ceil(quota));
  return std::max(cores, 1);
}

int set_threads(int threads, int processes) {
  if (threads <= 0) {
    threads = static_cast<int>(core::environment_int("OMP_NUM_THREADS").value_or(0));
  }
  if (threads <= 0) threads = usable_cores() / std::max(processes, 1);
  threads = std::clamp(threads, 1, 4096);
  at::set_num_threads(threads);
  return threads;
}

void keep_memory() {
#ifdef __GLIBC__
  constexpr int kNoTrimming = -1, kLargestFromHeap = std::numeric_limits<int>::max();
  mallopt(M_TRIM_THRESHOLD, kNoTrimming);
  mallopt(M_MMAP_THRESHOLD, kLargestFromHeap);
  // The heap grows once and is marked before anything is written to it.
  constexpr std::size_t kReserve = std::size_t{2000} << 20, kHugePage = std::size_t{2} << 20;
  void* block = std::malloc(kReserve);
  if (block == nullptr) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + kHugePage - 1) & ~(kHugePage - 1);
  madvise(reinterpret_cast<void*>(begin), kReserve - kHugePage, MADV_HUGEPAGE);
  std::free(block);
#endif
}

CpuFeatures cpu_features() {
  static const CpuFeatures found = [] {
    const auto known = at::cpu::get_cpu_capabilities();
    const auto has = [&known](const char* name) {
      const auto at = known.find(name);
      return at != known.end() && at->second.isBool() && at->second.toBool();
    };
    CpuFeatures out;
    out.avx2 = has("avx2");
    out.avx512 = has("avx512_f") && has("avx512_bw") && has("avx512_vl") && has("avx512_dq");
    out.avx512_bf16 = out.avx512 && has("avx512_bf16");
    out.avx512_fp16 = out.avx512 && has("avx512_fp16");
    // The operating system must grant the tile registers too.
    out.amx_bf16 = has("amx_bf16") && has("amx_tile") && at::cpu::init_amx();
    return out;
  }();
  return found;
}

at::ScalarType resolve_precision(std::string_view text, at::Device device) {
  const std::string key = core::fuzzy_key(text);
  if (key == "auto" || key == "true" || key == "on") return automatic_precision(device);
  if (key == "fp32" || key == "float32" || key == "float" || key == "32" || key == "false" ||
      key == "off") {
    return at::kFloat;
  }
  if (key == "bf16" || key == "bfloat16") return at::kBFloat16;
  if (key == "fp64" || key == "float64" || key == "double") return at::kDouble;
  if (key == "fp16" || key == "float16" || key == "half" || key == "16") {
    if (device.is_cuda()) return at::kHalf;
    throw core::InputError("precision fp16 is for GPUs", {}, "use bf16, fp32 or auto on the CPU");
  }
  throw core::InputError("unknown precision '" + std::string(text) + "'", {},
                         "use auto, fp32, bf16, fp16 or fp64");
}

std::string_view precision_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "fp16";
    case at::kDouble:
      return "fp64";
    default:
      return "fp32";
  }
}

AutocastGuard::AutocastGuard(at::Device device, at::ScalarType dtype)
    : type_(device.type()),
      was_enabled_(at::autocast::is_autocast_enabled(type_)),
      old_dtype_(at::autocast::get_autocast_dtype(type_)) {
  const bool on = dtype == at::kBFloat16 || dtype == at::kHalf;
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(type_, on);
  if (on) at::autocast::set_autocast_dtype(type_, dtype);
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, was_enabled_);
  at::autocast::set_autocast_dtype(type_, old_dtype_);
}

std::size_t memory_in_use(at::Device device) {
  if (device.is_cuda()) return module_for(device).reserved_bytes(device.index());
  return core::resident_bytes();
}

std::size_t peak_memory(at::Device device) {
  if (device.is_cuda()) return module_for(device).peak_reserved_bytes(device.index());
  return core::peak_resident_bytes();
}

void reset_peak_memory(at::Device device) {
  if (device.is_cuda()) return module_for(device).reset_peak(device.index());
  // "5" sets the peak resident set size to the current one (Linux 4.0; proc(5)).
  std::ofstream("/proc/self/clear_refs") << "5";
}

void synchronize(at::Device device) {
  if (device.is_cuda()) module_for(device).synchronize(device.index());
}

void seed(std::uint64_t seed) {
  at::manual_seed(seed);
}

std::string rng_state(at::Device device) {
  std::string out;
  append_state(out, at::Device(at::kCPU));
  if (device.is_cuda()) append_state(out, device);
  return out;
}

void set_rng_state(at::Device device, const std::string& state) {
  std::string_view rest = state;
  take_state(rest, at::Device(at::kCPU));
  // A run that goes on on another kind of device keeps only the CPU's generator.
  if (device.is_cuda() && !rest.empty()) take_state(rest, device);
}

}  // namespace sgtrain::tensor
