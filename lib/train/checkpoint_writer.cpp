#include "train/checkpoint_writer.h"

#include <algorithm>
#include <cstring>
#include <iterator>

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
  if (!writing_.joinable()) return;
  writing_.join();
  copying_thread_.join();
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

void CheckpointWriter::submit(const Value& content, const Addresses& still,
                              std::function<void(const Value&)> job) {
  const auto started = Clock::now();
  const std::size_t chosen = take_buffers();
  const auto taken = Clock::now();
  Copying copying{.buffers = buffers_[chosen], .still = still, .gpu = {}, .late = {}};
  Value copied = copy(content, copying);
  if (copying.gpu) tensor::synchronize(*copying.gpu);
  {
    const std::lock_guard lock(mutex_);
    std::move(copying.late.begin(), copying.late.end(), std::back_inserter(late_));
  }
  changed_.notify_all();
  push({[this, job = std::move(job), copied = std::move(copied)] {
          make_late_copies();
          job(copied);
        },
        chosen});
  longest_wait_ = std::max<std::chrono::nanoseconds>(longest_wait_, taken - started);
  last_copy_ = Clock::now() - taken;
  longest_copy_ = std::max(longest_copy_, last_copy_);
}

void CheckpointWriter::settle() {
  const auto started = Clock::now();
  make_late_copies();
  last_copy_ += Clock::now() - started;
  longest_copy_ = std::max(longest_copy_, std::exchange(last_copy_, {}));
}

void CheckpointWriter::push(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  if (!writing_.joinable()) {
    writing_ = std::thread([this] { work(); });
    copying_thread_ = std::thread([this] { copy_on(); });
  }
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

/// On the calling thread alone where both lie alike in memory.
void copy_to(const at::Tensor& buffer, const at::Tensor& source) {
  const at::NoGradGuard no_grad;
  if (source.is_cpu() && source.is_non_overlapping_and_dense() &&
      source.strides() == buffer.strides()) {
    if (source.nbytes() > 0)
      std::memcpy(buffer.mutable_data_ptr(), source.const_data_ptr(), source.nbytes());
  } else {
    buffer.copy_(source, /*non_blocking=*/source.is_cuda());
  }
}

}  // namespace

void CheckpointWriter::prepare(const Value& content) {
  std::vector<at::Tensor> sources;
  collect(content, sources);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    take_buffers();
    push({[this, i, sources] {
            buffers_[i].clear();
            for (const at::Tensor& source : sources) {
              buffers_[i].push_back(buffer_like(source));
              const at::Tensor& buffer = buffers_[i].back();  // touched: the pages are there
              if (buffer.nbytes() > 0) std::memset(buffer.mutable_data_ptr(), 0, buffer.nbytes());
            }
          },
          i});
  }
}

Value CheckpointWriter::copy(const Value& value, Copying& copying) {
  if (value.is_tensor()) return copy(value.as_tensor(), copying);
  if (value.is_sequence()) {
    Value::List items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) items.push_back(copy(item, copying));
    return value.kind() == Value::Kind::kList ? Value::list(std::move(items))
                                              : Value::tuple(std::move(items));
  }
  if (!value.is_dict()) return value;
  Value::Dict items;
  items.reserve(value.pairs().size());
  for (const auto& [key, item] : value.pairs()) items.emplace_back(key, copy(item, copying));
  return value.is_ordered() ? Value::ordered_dict(std::move(items)) : Value::dict(std::move(items));
}

/// The next buffer where it fits, else a new one in its place.
at::Tensor CheckpointWriter::copy(const at::Tensor& tensor, Copying& copying) {
  const at::Tensor source = tensor.detach();
  if (source.is_cuda()) copying.gpu = source.device();
  if (copying.next == copying.buffers.size()) copying.buffers.emplace_back();
  at::Tensor& buffer = copying.buffers[copying.next++];
  const bool fits = buffer.defined() && buffer.scalar_type() == source.scalar_type() &&
                    buffer.sizes() == source.sizes() && buffer.strides() == source.strides();
  if (!fits) buffer = buffer_like(source);
  if (source.is_cpu() && copying.still.contains(source.const_data_ptr())) {
    copying.late.emplace_back(buffer, source);
  } else {
    copy_to(buffer, source);
  }
  return buffer;
}

/// Shared by whoever needs them; the copies of all jobs are made when it returns.
void CheckpointWriter::make_late_copies() {
  std::unique_lock lock(mutex_);
  while (!late_.empty()) {
    const auto [buffer, source] = std::move(late_.front());
    late_.pop_front();
    ++copying_;
    lock.unlock();
    copy_to(buffer, source);
    lock.lock();
    --copying_;
  }
  changed_.notify_all();
  changed_.wait(lock, [this] { return late_.empty() && copying_ == 0; });
}

/// A thread of its own, so that copies need not wait for files that are being written.
void CheckpointWriter::copy_on() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !late_.empty() || ends_; });
    if (late_.empty()) return;
    lock.unlock();
    make_late_copies();
    lock.lock();
  }
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
