// Writing checkpoints beside the training: a thread copies what the run holds still for a while,
// and writes the files.
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
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensor/value.h"

namespace sgtrain::train {

/// Jobs run one after the other; while one runs another may wait, so that the caller waits only
/// where the disk falls behind by two. Memory of the copies is used again, so that copying costs
/// what moving the bytes costs.
class CheckpointWriter {
 public:
  /// Memory by the address of its first byte.
  using Addresses = std::unordered_set<const void*>;

  CheckpointWriter() = default;
  /// Waits for the jobs.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Lets the thread run `job` on a copy of `content` in memory of the CPU. Its tensors are copied
  /// at once, but those of the CPU among `still` by a thread: they may be read and must not be
  /// written before settle(). `job` handles its own errors.
  void submit(const tensor::Value& content, const Addresses& still,
              std::function<void(const tensor::Value&)> job);
  /// Everything that was submitted is copied when this returns; it helps the thread.
  void settle();
  /// Lets the thread take the memory for copies of such content, so that the first ones need not.
  void prepare(const tensor::Value& content);
  /// Until every job is done.
  void wait();

  /// The longest that one job kept the caller in submit() and settle(): copying, and waiting for
  /// jobs before it.
  std::chrono::nanoseconds longest_copy() const { return longest_copy_; }
  std::chrono::nanoseconds longest_wait() const { return longest_wait_; }

 private:
  using Buffers = std::vector<at::Tensor>;
  struct Job {
    std::function<void()> work;
    std::size_t buffers;
  };
  /// What one copy of a tree is made of.
  struct Copying {
    Buffers& buffers;
    const Addresses& still;
    std::size_t next = 0;
    std::optional<at::Device> gpu;                        // that tensors came from
    std::vector<std::pair<at::Tensor, at::Tensor>> late;  // buffer and source
  };
  std::size_t take_buffers();
  static tensor::Value copy(const tensor::Value& value, Copying& copying);
  static at::Tensor copy(const at::Tensor& tensor, Copying& copying);
  void push(Job job);
  void make_late_copies();
  void copy_on();
  void work();

  std::array<Buffers, 2> buffers_;
  std::array<bool, 2> taken_{};
  std::deque<Job> jobs_;
  std::deque<std::pair<at::Tensor, at::Tensor>> late_;  // that no thread has begun
  int copying_ = 0;                                     // of them, that threads are at
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, ends_ = false;
  std::chrono::nanoseconds last_copy_{0}, longest_copy_{0}, longest_wait_{0};
  std::thread writing_, copying_thread_;  // started by the first job
};

}  // namespace sgtrain::train
