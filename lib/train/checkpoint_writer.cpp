#include "train/checkpoint_writer.h"

#include <algorithm>

#include "tensor/device.h"

namespace sgtrain::train {

using tensor::Value;
using Clock = std::chrono::steady_clock;

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
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

/// The first set of buffers that no job uses, once there is one.
std::size_t CheckpointWriter::take_buffers() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !taken_[0] || !taken_[1]; });
  const std::size_t chosen = taken_[0] ? 1 : 0;
  taken_[chosen] = true;
  return chosen;
}

void CheckpointWriter::submit(const Value& content, std::function<void(const Value&)> job) {
  const auto started = Clock::now();
  const std::size_t chosen = take_buffers();
  const auto taken = Clock::now();
  std::size_t next = 0;
  gpu_.reset();
  Value copied = copy(content, buffers_[chosen], next);
  if (gpu_) tensor::synchronize(*gpu_);
  push({[job = std::move(job), copied = std::move(copied)] { job(copied); }, chosen});
  longest_wait_ = std::max<std::chrono::nanoseconds>(longest_wait_, taken - started);
  longest_copy_ = std::max<std::chrono::nanoseconds>(longest_copy_, Clock::now() - taken);
}

void CheckpointWriter::push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

namespace {

void collect(const Value& value, std::vector<at::Tensor>& out) {
  if (value.is_tensor()) out.push_back(value.as_tensor().detach());
  if (value.is_sequence()) {
    for (const Value& item : value.items()) collect(item, out);
  }
  if (value.is_dict()) {
    for (const auto& [key, item] : value.pairs()) collect(item, out);
  }
}

at::Tensor buffer_like(const at::Tensor& source) {
  return at::empty_like(source, source.options().device(at::kCPU).pinned_memory(source.is_cuda()));
}

}  // namespace

void CheckpointWriter::prepare(const Value& content) {
  std::vector<at::Tensor> sources;
  collect(content, sources);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    take_buffers();
    push({[this, i, sources] {
            const at::NoGradGuard no_grad;
            buffers_[i].clear();
            for (const at::Tensor& source : sources)
              buffers_[i].push_back(buffer_like(source).zero_());  // touched: the pages are there
          },
          i});
  }
}

Value CheckpointWriter::copy(const Value& value, Buffers& buffers, std::size_t& next) {
  if (value.is_tensor()) return copy(value.as_tensor(), buffers, next);
  if (value.is_sequence()) {
    Value::List items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) items.push_back(copy(item, buffers, next));
    return value.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                              : Value::tuple(std::move(items));
  }
  if (!value.is_dict()) return value;
  Value::Dict items;
  items.reserve(value.pairs().size());
  for (const auto& [key, item] : value.pairs()) items.emplace_back(key, copy(item, buffers, next));
  return value.is_ordered() ? Value::ordered_dict(std::move(items)) : Value::dict(std::move(items));
}

/// The next buffer where it fits, else a new one in its place.
at::Tensor CheckpointWriter::copy(const at::Tensor& tensor, Buffers& buffers, std::size_t& next) {
  const at::NoGradGuard no_grad;
  const at::Tensor source = tensor.detach();
  const bool gpu = source.is_cuda();
  if (gpu) gpu_ = source.device();
  if (next == buffers.size()) buffers.emplace_back();
  at::Tensor& buffer = buffers[next++];
  const bool fits = buffer.defined() && buffer.scalar_type() == source.scalar_type() &&
                    buffer.sizes() == source.sizes() && buffer.strides() == source.strides();
  if (!fits) buffer = buffer_like(source);
  buffer.copy_(source, /*non_blocking=*/gpu);
  return buffer;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !jobs_.empty() || ends_; });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    job.work();
    job.work = nullptr;  // lets go of the copy
    lock.lock();
    busy_ = false;
    taken_[job.buffers] = false;
    changed_.notify_all();
  }
}

}  // namespace sgtrain::train
