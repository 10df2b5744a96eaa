#include "dist/reducer.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <sstream>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/default_comm_hooks.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "dist/process_group.h"

namespace sgtrain::dist {
namespace {

/// When the buckets of one backward were under way, and the sums over all backwards.
class BucketClock {
 public:
  using Clock = std::chrono::steady_clock;

  void reduced(Clock::time_point start, Clock::time_point end) {
    const std::scoped_lock lock(mutex_);
    spans_.emplace_back(start, end);
  }
  /// The last bucket starts when the last gradient is there: what lies behind is waiting.
  void end_step() {
    const std::scoped_lock lock(mutex_);
    if (spans_.empty()) return;
    std::sort(spans_.begin(), spans_.end());
    const Clock::time_point computed = spans_.back().first;
    Clock::time_point end = spans_.front().first;
    for (const auto& [first, last] : spans_) {
      if (last <= end) continue;
      sums_.seconds += seconds(last - std::max(first, end));
      end = last;
    }
    sums_.waited += seconds(end - computed);
    ++sums_.steps;
    spans_.clear();
  }
  Reducer::Traffic sums() const { return sums_; }

 private:
  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }
  std::mutex mutex_;  // ends come from Gloo's threads
  std::vector<std::pair<Clock::time_point, Clock::time_point>> spans_;
  Reducer::Traffic sums_;
};

/// All-reduces a bucket, in 16 bits where that is asked for: half the traffic. Divided by the
/// number of ranks before, so that the sum cannot overflow where one rank's gradient does not.
class BucketHook final : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  BucketHook(c10::intrusive_ptr<c10d::ProcessGroup> group, std::optional<at::ScalarType> dtype,
             BucketClock* clock)
      : CppCommHookInterface(std::move(group)), dtype_(dtype), clock_(clock) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const auto start = BucketClock::Clock::now();
    const at::Tensor full = bucket.getBuffer();
    std::vector<at::Tensor> list{(dtype_ ? full.to(*dtype_) : full).div_(state_->getSize())};
    auto done = state_->allreduce(list)->getFuture();
    return done->then(
        [full, start, clock = clock_](c10::ivalue::Future& future) {
          // The future holds a list of tensors (Gloo, NCCL) with one entry.
          const at::Tensor sum = future.value().toTensorVector().at(0);
          if (!sum.is_same(full)) full.copy_(sum);
          if (clock != nullptr) clock->reduced(start, BucketClock::Clock::now());
          return c10::IValue(full);
        },
        c10::TensorType::get());
  }

 private:
  std::optional<at::ScalarType> dtype_;
  BucketClock* clock_;  // nullptr on GPUs, where futures are done before the work is
};

std::optional<at::ScalarType> compressed_type(Reducer::Compression compression) {
  switch (compression) {
    case Reducer::Compression::kFp16:
      return at::kHalf;
    case Reducer::Compression::kBf16:
      return at::kBFloat16;
    case Reducer::Compression::kNone:
      break;
  }
  return std::nullopt;
}

/// Whether a collective failed, and not this rank's own computation.
bool is_peer_failure(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  const std::string text = error.what();
  return text.find("gloo/") != std::string::npos || text.find("NCCL") != std::string::npos;
}

ProcessGroupCommunicator* as_group(Communicator& comm) {
  return dynamic_cast<ProcessGroupCommunicator*>(&comm);
}

[[noreturn]] void throw_unused(const std::string& names) {
  throw core::Error("no gradient reached these parameters in the last step: " + names, {},
                    "every trained parameter must take part in the loss of every step; freeze "
                    "those that do not (requires_grad)");
}

}  // namespace

struct Reducer::Impl {
  Impl(ProcessGroupCommunicator& communicator, std::vector<std::string> parameter_names,
       std::vector<at::Tensor> parameters)
      : comm(communicator), names(std::move(parameter_names)), tensors(std::move(parameters)) {}

  ProcessGroupCommunicator& comm;
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
  BucketClock clock;  // outlives the reducer, which may be waiting in it
  std::unique_ptr<c10d::Reducer> reducer;
  bool sync = true;
  bool checked = false;

  /// Buckets of a parameter without gradient are never reduced, and the reducer says so only in the
  /// next forward: after an optimizer step that took ranks apart.
  void check_all_used() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].grad().defined()) out.push_back(names[i]);
    }
    if (!out.empty()) throw_unused(core::join(out));
  }

  /// Names of the parameters that LibTorch's message lists by index.
  std::string unused(const std::string& message) const {
    const std::string start = "did not receive grad for rank";
    auto at = message.find(start);
    at = at == std::string::npos ? at : message.find(':', at);
    if (at == std::string::npos) return {};
    std::istringstream indices(message.substr(at + 1));
    std::vector<std::string> out;
    for (std::size_t i = 0; indices >> i && i < names.size();) out.push_back(names[i]);
    return core::join(out);
  }
};

Reducer::Reducer(Communicator& comm, std::vector<tensor::TensorRef> parameters)
    : Reducer(comm, std::move(parameters), Options()) {}

Reducer::Reducer(Communicator& comm, std::vector<tensor::TensorRef> parameters,
                 const Options& options) {
  ProcessGroupCommunicator* group = as_group(comm);
  if (group == nullptr) return;  // one process
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  for (const tensor::TensorRef& p : parameters) {
    if (!p.tensor->requires_grad()) continue;
    names.push_back(p.name);
    tensors.push_back(*p.tensor);
  }
  if (tensors.empty()) throw core::Error("nothing to train: no parameter requires a gradient");
  const std::vector<bool> sparse(tensors.size(), false);
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(tensors,
                                              {static_cast<std::size_t>(options.first_bucket_bytes),
                                               static_cast<std::size_t>(options.bucket_bytes)},
                                              sparse);
  // Gradients come in about the reverse order of the parameters; after the first backward the
  // reducer knows the true order and rebuilds the buckets by it.
  std::reverse(buckets.begin(), buckets.end());
  impl_ = std::make_unique<Impl>(*group, std::move(names), tensors);
  try {
    impl_->reducer = std::make_unique<c10d::Reducer>(
        tensors, std::move(buckets), group->group(), sparse, options.bucket_bytes,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true,
        /*param_names=*/std::unordered_map<std::size_t, std::string>{}, options.first_bucket_bytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false, std::vector<std::int64_t>{});
    const auto dtype = compressed_type(options.compression);
    const bool measures = tensors[0].is_cpu();
    if (dtype || measures) {
      impl_->reducer->register_comm_hook(
          std::make_unique<BucketHook>(group->group(), dtype, measures ? &impl_->clock : nullptr));
    }
  } catch (const std::exception& error) {
    group->fail("preparing the gradient buckets", error);
  }
}

Reducer::~Reducer() {
  if (impl_ && impl_->reducer) impl_->reducer->remove_autograd_hooks();
}

Reducer::Traffic Reducer::traffic() const {
  return impl_ ? impl_->clock.sums() : Traffic{};
}

void Reducer::before_forward(bool sync) {
  if (!impl_) return;
  impl_->sync = sync;
  if (!sync) return;
  try {
    impl_->reducer->prepare_for_forward();
    impl_->reducer->rebuild_buckets();
  } catch (const std::exception& error) {
    const std::string names = impl_->unused(error.what());
    if (names.empty()) impl_->comm.fail("reducing gradients", error);
    throw_unused(names);
  }
}

void Reducer::backward(const at::Tensor& loss) {
  if (!impl_ || !impl_->sync) return loss.backward();
  impl_->reducer->prepare_for_backward({loss});
  try {
    loss.backward();
    if (!impl_->checked) impl_->check_all_used();
    impl_->checked = true;
    impl_->clock.end_step();
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    if (is_peer_failure(error)) impl_->comm.fail("reducing gradients", error);
    throw;
  }
}

}  // namespace sgtrain::dist
