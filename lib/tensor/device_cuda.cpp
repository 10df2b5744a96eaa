// Part of libsgtrain_cuda.so (see tensor/cuda_module.h). Uses nothing of sgtrain's own objects.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "tensor/cuda_module.h"

namespace sgtrain::dist {
void make_nccl(void* store, int rank, int world_size, int device_index, std::int64_t timeout_ms,
               void* backend);  // dist/nccl.cpp
}

namespace sgtrain::tensor {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
constexpr auto kAllPools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::DeviceIndex as_index(int index) {
  return static_cast<c10::DeviceIndex>(index);
}

int device_count(std::string& why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());  // later calls must not see this error
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    why_none = driver == 0 ? std::string("no NVIDIA driver was found")
                           : fmt::format(
                                 "the NVIDIA driver is too old: it supports CUDA {}.{}, "
                                 "this build needs {}.{}",
                                 driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                                 CUDART_VERSION % 1000 / 10);
  } else if (error == cudaSuccess || error == cudaErrorNoDevice) {
    why_none = "no GPU is visible (CUDA_VISIBLE_DEVICES?)";
  } else {
    why_none = cudaGetErrorString(error);
  }
  return 0;
}

cudaDeviceProp properties(int index) {
  cudaDeviceProp out{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&out, index));
  return out;
}

void set_device(int index) {
  c10::cuda::set_device(as_index(index));
}

std::string describe(int index) {
  const cudaDeviceProp p = properties(index);
  return fmt::format("{}, {:.1f} GiB", p.name, static_cast<double>(p.totalGlobalMem) / (1 << 30));
}

int compute_capability(int index) {
  const cudaDeviceProp p = properties(index);
  return 10 * p.major + p.minor;
}

// The allocator's tables exist once the device was used.
bool allocator_ready() {
  return allocator::get() != nullptr && allocator::get()->initialized();
}

std::size_t reserved_bytes(int index) {
  if (!allocator_ready()) return 0;
  return static_cast<std::size_t>(
      allocator::getDeviceStats(as_index(index)).reserved_bytes[kAllPools].current);
}

std::size_t peak_reserved_bytes(int index) {
  if (!allocator_ready()) return 0;
  return static_cast<std::size_t>(
      allocator::getDeviceStats(as_index(index)).reserved_bytes[kAllPools].peak);
}

void reset_peak(int index) {
  if (allocator_ready()) allocator::resetPeakStats(as_index(index));
}

void synchronize(int index) {
  const c10::DeviceIndex old = c10::cuda::ExchangeDevice(as_index(index));
  c10::cuda::device_synchronize();
  c10::cuda::ExchangeDevice(old);
}

}  // namespace
}  // namespace sgtrain::tensor

extern "C" __attribute__((visibility("default"))) void sgtrain_cuda_module(
    sgtrain::tensor::CudaModule* out) {
  using namespace sgtrain::tensor;
  *out = {.abi = CudaModule::kAbi,
          .device_count = device_count,
          .set_device = set_device,
          .describe = describe,
          .compute_capability = compute_capability,
          .reserved_bytes = reserved_bytes,
          .peak_reserved_bytes = peak_reserved_bytes,
          .reset_peak = reset_peak,
          .synchronize = synchronize,
          .make_nccl = sgtrain::dist::make_nccl};
}
