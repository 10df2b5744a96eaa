// Devices, threads, precision and seeds of a process. CUDA lives in a module that is opened only
// when a GPU is asked for (tensor/cuda_module.h); without it everything here answers for the CPU.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::tensor {

/// GPUs that can be used (CUDA_VISIBLE_DEVICES respected), 0 when there are none. The first call
/// opens the CUDA module.
int gpu_count();
/// Why gpu_count() is 0 ("this build has no CUDA module …", "no NVIDIA driver …"); else empty.
std::string why_no_gpu();

/// "cpu" | "cuda" (the first GPU) | "cuda:1" | "1" | "0,2,3" | "all" (all GPUs) | "auto" (the
/// first GPU, else the CPU). One device per process. Empty text is "auto". Throws InputError
/// naming the choices, for GPUs that are not there too (with why).
std::vector<at::Device> resolve_device(std::string_view text);
/// True when the text names GPUs (without opening the module).
bool asks_for_gpu(std::string_view text);
/// Makes it the current device of this thread (CUDA), nothing on the CPU.
void use_device(at::Device device);
std::string describe_device(
    at::Device device);  // "CPU: Intel Xeon …, 2 threads", "cuda:0: H200, 139 GiB"

/// Threads of one operation in this process. 0: OMP_NUM_THREADS when set, else this process's
/// cores (affinity and cgroup quota respected) divided by `processes`, at least 1. Call it once,
/// before the first operation. Returns the number set.
int set_threads(int threads, int processes = 1);
/// Before a training: freed memory stays with the process for the next step, and large blocks lie
/// in huge pages where the system grants them; page faults and address translation otherwise take
/// about a twentieth of a step on the CPU. Only address space is reserved.
void keep_memory();
/// Cores this process may use (affinity mask, cgroup CPU quota), at least 1.
int usable_cores();

struct CpuFeatures {
  bool avx2 = false, avx512 = false, avx512_bf16 = false, amx_bf16 = false, avx512_fp16 = false;
};
CpuFeatures cpu_features();  // that CPU and operating system both support

/// "auto" | "fp32" | "bf16" | "fp16" | "fp64" -> what forward and loss compute in. auto: bf16 on
/// CPUs with AVX512-BF16 or AMX and on GPUs from compute capability 8.0 on, fp16 on older GPUs
/// from 7.0 on, else fp32. Aliases: float32, bfloat16, float16, half, true, false. Throws
/// InputError for other names and for fp16 on the CPU.
at::ScalarType resolve_precision(std::string_view text, at::Device device);
/// "fp32", "bf16", "fp16", "fp64".
std::string_view precision_name(at::ScalarType dtype);

/// Mixed precision for the operations of this thread while it lives (LibTorch's autocast lists);
/// float (or double) switches it off. Guards nest. The cache of cast weights lives as long as the
/// outermost guard: open one per step, around forward and loss, not around backward.
class AutocastGuard {
 public:
  AutocastGuard(at::Device device, at::ScalarType dtype);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  at::DeviceType type_;
  bool was_enabled_;
  at::ScalarType old_dtype_;
};

/// Bytes in use: resident set (CPU), reserved by the allocator (CUDA).
std::size_t memory_in_use(at::Device device);
std::size_t peak_memory(at::Device device);
void reset_peak_memory(at::Device device);
/// Waits for all work queued on the device.
void synchronize(at::Device device);

/// Seeds LibTorch's generators of the CPU and all GPUs.
void seed(std::uint64_t seed);
/// State of the generators of the CPU and of this device as bytes, for resuming exactly.
std::string rng_state(at::Device device);
void set_rng_state(at::Device device, const std::string& state);  // throws core::Error

}  // namespace sgtrain::tensor
