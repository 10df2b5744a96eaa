#include "train/checkpoint_writer.h"

#include <algorithm>

#include "tensor/device.h"

namespace sgtrain::train {

using tensor::Value;

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void CheckpointWriter::submit(const Value& content, std::function<void(const Value&)> job) {
  const auto started = std::chrono::steady_clock::now();
  wait();
  std::size_t next = 0;
  gpu_.reset();
  Value copied = copy(content, next);
  if (gpu_) tensor::synchronize(*gpu_);
  {
    const std::lock_guard lock(mutex_);
    job_ = [job = std::move(job), copied = std::move(copied)] { job(copied); };
    busy_ = true;
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
  last_stall_ = std::chrono::steady_clock::now() - started;
  longest_stall_ = std::max(longest_stall_, last_stall_);
}

Value CheckpointWriter::copy(const Value& value, std::size_t& next) {
  if (value.is_tensor()) return copy(value.as_tensor(), next);
  if (value.is_sequence()) {
    Value::List items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) items.push_back(copy(item, next));
    return value.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                              : Value::tuple(std::move(items));
  }
  if (!value.is_dict()) return value;
  Value::Dict items;
  items.reserve(value.pairs().size());
  for (const auto& [key, item] : value.pairs()) items.emplace_back(key, copy(item, next));
  return value.is_ordered() ? Value::ordered_dict(std::move(items)) : Value::dict(std::move(items));
}

/// The next buffer where it fits, else a new one in its place.
at::Tensor CheckpointWriter::copy(const at::Tensor& tensor, std::size_t& next) {
  const at::NoGradGuard no_grad;
  const at::Tensor source = tensor.detach();
  const bool gpu = source.is_cuda();
  if (gpu) gpu_ = source.device();
  if (next == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[next++];
  const bool fits = buffer.defined() && buffer.scalar_type() == source.scalar_type() &&
                    buffer.sizes() == source.sizes() && buffer.strides() == source.strides();
  if (!fits) {
    buffer = at::empty_like(source, source.options().device(at::kCPU).pinned_memory(gpu));
  }
  buffer.copy_(source, /*non_blocking=*/gpu);
  return buffer;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || ends_; });
    if (!busy_) return;
    lock.unlock();
    job_();
    job_ = nullptr;  // lets go of the copy
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace sgtrain::train
