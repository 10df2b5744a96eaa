// Part of libsgtrain_cuda.so (see tensor/cuda_module.h): the NCCL backend of a process group.
#include <c10/cuda/CUDAFunctions.h>
#include <stdlib.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace sgtrain::dist {

/// `store`: c10::intrusive_ptr<c10d::Store>*; `backend`: c10::intrusive_ptr<c10d::Backend>*, set.
/// The calling process computes on GPU `device_index` only.
void make_nccl(void* store, int rank, int world_size, int device_index, std::int64_t timeout_ms,
               void* backend) {
  // On a time-out or a lost peer: abort the communicator and end the process with its message,
  // so that the launcher sees it. Dumps for LibTorch's own tools only delay that.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
  setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", 0);
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(device_index));
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(timeout_ms);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      *static_cast<c10::intrusive_ptr<c10d::Store>*>(store), rank, world_size, options);
  *static_cast<c10::intrusive_ptr<c10d::Backend>*>(backend) = std::move(group);
}

}  // namespace sgtrain::dist
