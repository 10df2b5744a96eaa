// The border between sgtrain and libsgtrain_cuda.so, the only code that sees CUDA and NCCL headers
// (tensor/device_cuda.cpp, dist/nccl.cpp). It is opened when a GPU is first asked for; opening it
// loads libtorch_cuda, which makes LibTorch's CUDA backend available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sgtrain::tensor {

/// What the module offers; filled by `sgtrain_cuda_module`. All functions may throw std::exception.
struct CudaModule {
  static constexpr int kAbi = 1;
  int abi = 0;
  int (*device_count)(std::string& why_none) = nullptr;
  void (*set_device)(int index) = nullptr;
  std::string (*describe)(int index) = nullptr;        // "NVIDIA H200, 139.7 GiB"
  int (*compute_capability)(int index) = nullptr;      // 10 * major + minor
  std::size_t (*reserved_bytes)(int index) = nullptr;  // by the caching allocator
  std::size_t (*peak_reserved_bytes)(int index) = nullptr;
  void (*reset_peak)(int index) = nullptr;
  void (*synchronize)(int index) = nullptr;
  /// `store`: c10::intrusive_ptr<c10d::Store>*; `backend`: c10::intrusive_ptr<c10d::Backend>*, set.
  void (*make_nccl)(void* store, int rank, int world_size, int device_index,
                    std::int64_t timeout_ms, void* backend) = nullptr;
};
using CudaModuleEntry = void (*)(CudaModule*);
inline constexpr const char* kCudaModuleEntry = "sgtrain_cuda_module";

/// The opened module, nullptr when there is none (see cuda_module_problem()). Opened at the first
/// call; thread-safe. It must come before anything else that asks LibTorch about CUDA.
const CudaModule* cuda_module();
/// Why cuda_module() is nullptr; else empty.
const std::string& cuda_module_problem();

}  // namespace sgtrain::tensor
