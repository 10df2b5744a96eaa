// The communicator over LibTorch's c10d. Gloo (dist/gloo.cpp) and NCCL (dist/nccl.cpp) only make
// its backends.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "dist/communicator.h"
#include "dist/factory.h"

namespace sgtrain::dist {

class ProcessGroupCommunicator final : public Communicator {
 public:
  /// Joins the store and makes the backends; blocks until all ranks are there.
  ProcessGroupCommunicator(const World& world, at::Device device,
                           const CommunicatorOptions& options);
  ~ProcessGroupCommunicator() override;

  int rank() const override { return world_.rank; }
  int world_size() const override { return world_.world_size; }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override;
  void broadcast(at::Tensor& tensor, int root) override;
  void barrier() override;
  void progress() override;
  void wait_for_all() override;
  std::vector<std::string> all_gather(const std::string& bytes) override;
  std::string broadcast(const std::string& bytes, int root) override;

  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }
  /// Turns an exception of LibTorch into a core::Error that says what, and tells the launcher.
  [[noreturn]] void fail(const char* operation, const std::exception& cause) const;

 private:
  template <class F>
  void guarded(const char* operation, F&& f);
  std::vector<std::int64_t> gather_sizes(std::size_t mine);

  World world_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point last_progress_{};
  std::int64_t progress_count_ = 0, waits_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

/// dist/gloo.cpp: the backend for CPU tensors.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const World& world, const CommunicatorOptions& options);

}  // namespace sgtrain::dist
