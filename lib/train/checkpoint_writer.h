// Writing checkpoints beside the training: the run hands over a copy of its tensors and goes on
// while a thread writes the files.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tensor/value.h"

namespace sgtrain::train {

/// Jobs run one after the other; while one runs another may wait, so that the caller waits only
/// where the disk falls behind by two. Memory of the copies is used again, so that copying costs
/// what moving the bytes costs; the second copy's memory is taken when it is first needed.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  /// Waits for the jobs.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies the tensors of `content` into memory of the CPU, and lets the thread run `job` on the
  /// copy. `job` handles its own errors.
  void submit(const tensor::Value& content, std::function<void(const tensor::Value&)> job);
  /// Lets the thread take the memory for copies of such content, so that the first ones need not.
  void prepare(const tensor::Value& content);
  /// Until every job is done.
  void wait();

  /// The longest that submit() kept its caller: copying, and waiting for jobs before it.
  std::chrono::nanoseconds longest_copy() const { return longest_copy_; }
  std::chrono::nanoseconds longest_wait() const { return longest_wait_; }

 private:
  using Buffers = std::vector<at::Tensor>;
  struct Job {
    std::function<void()> work;
    std::size_t buffers;
  };
  std::size_t take_buffers();
  tensor::Value copy(const tensor::Value& value, Buffers& buffers, std::size_t& next);
  at::Tensor copy(const at::Tensor& tensor, Buffers& buffers, std::size_t& next);
  void push(Job job);
  void work();

  std::array<Buffers, 2> buffers_;
  std::array<bool, 2> taken_{};
  std::optional<at::Device> gpu_;  // that the last copies came from
  std::deque<Job> jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, ends_ = false;
  std::chrono::nanoseconds longest_copy_{0}, longest_wait_{0};
  std::thread thread_;  // started by the first job
};

}  // namespace sgtrain::train
