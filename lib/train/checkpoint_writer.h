// Writing checkpoints beside the training: the run hands over a copy of its tensors and goes on
// while a thread writes the files.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tensor/value.h"

namespace sgtrain::train {

/// One job at a time. Memory of the copies is used again by the next one, so that the copying costs
/// what moving the bytes costs.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  /// Waits for the job.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Waits until the last job is done, copies the tensors of `content` into memory of the CPU, and
  /// lets the thread run `job` on the copy. `job` handles its own errors.
  void submit(const tensor::Value& content, std::function<void(const tensor::Value&)> job);
  /// Until the last job is done.
  void wait();

  /// How long submit() kept the caller: the last call, and the longest.
  std::chrono::nanoseconds last_stall() const { return last_stall_; }
  std::chrono::nanoseconds longest_stall() const { return longest_stall_; }

 private:
  tensor::Value copy(const tensor::Value& value, std::size_t& next);
  at::Tensor copy(const at::Tensor& tensor, std::size_t& next);
  void work();

  std::vector<at::Tensor> buffers_;
  std::optional<at::Device> gpu_;  // that the last copies came from
  std::function<void()> job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, ends_ = false;
  std::chrono::nanoseconds last_stall_{0}, longest_stall_{0};
  std::thread thread_;  // started by the first job
};

}  // namespace sgtrain::train
