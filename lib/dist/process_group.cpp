#include "dist/process_group.h"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/process.h"
#include "dist/internal.h"
#include "dist/launcher.h"
#include "tensor/cuda_module.h"

namespace sgtrain::dist {
namespace {

constexpr std::chrono::milliseconds kProgressPeriod{1'000}, kPollPeriod{5};

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin:
      return c10d::ReduceOp::MIN;
    case ReduceOp::kMax:
      return c10d::ReduceOp::MAX;
    case ReduceOp::kSum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

// LibTorch's messages carry a stack trace: the first line says it.
std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

c10::intrusive_ptr<c10d::Store> join_store(const World& world, const CommunicatorOptions& options) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(world.master_port);
  store.isServer = world.rank == 0;
  store.numWorkers = static_cast<std::size_t>(world.world_size);
  store.waitWorkers = true;
  store.timeout = options.timeout;
  if (world.rank == 0 && world.listen_fd >= 0) store.masterListenFd = world.listen_fd;
  // Under torchrun its agent is the server.
  if (world.launched_by == "torchrun" && world.rank == 0) {
    store.isServer = core::environment("TORCHELASTIC_USE_AGENT_STORE") != "True";
  }
  auto tcp = c10::make_intrusive<c10d::TCPStore>(world.master_addr, store);
  // torchrun starts anew with the same store after a failure.
  const auto attempt = core::environment_int("TORCHELASTIC_RESTART_COUNT").value_or(0);
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("sgtrain/{}", attempt), tcp);
}

int g_rank = 0;

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store,
                                            const World& world, at::Device device,
                                            const CommunicatorOptions& options) {
  const tensor::CudaModule* module = tensor::cuda_module();
  if (module == nullptr) {
    throw core::Error("cannot use " + device.str() + ": " + tensor::cuda_module_problem());
  }
  name_uncaught_errors(world);
  c10::intrusive_ptr<c10d::Backend> backend;
  module->make_nccl(&store, world.rank, world.world_size, device.index(), options.timeout.count(),
                    &backend);
  return backend;
}

}  // namespace

void name_uncaught_errors(const World& world) {
  g_rank = world.rank;
  std::set_terminate([] {
    std::string what = "an unknown error";
    try {
      if (const auto error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::exception& error) {
      what = first_line(error);
    } catch (...) {
    }
    std::fprintf(stderr,
                 "sgtrain: rank %d: a collective failed: %s\n  another process ended or did not "
                 "answer in time (--dist-timeout): look at the other ranks' logs\n",
                 g_rank, what.c_str());
    report_peer_failure();
    _exit(static_cast<int>(core::ExitCode::kFailed));
  });
}

template <class F>
void ProcessGroupCommunicator::guarded(const char* operation, F&& f) {
  try {
    f();
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(operation, error);
  }
}

ProcessGroupCommunicator::ProcessGroupCommunicator(const World& world, at::Device device,
                                                   const CommunicatorOptions& options)
    : world_(world), timeout_(options.timeout) {
  guarded("joining the other processes", [&] {
    store_ = join_store(world, options);
    using Group = c10d::ProcessGroup;
    group_ = c10::make_intrusive<Group>(store_, world.rank, world.world_size);
    group_->setBackend(
        c10::DeviceType::CPU, Group::BackendType::GLOO,
        make_gloo(c10::make_intrusive<c10d::PrefixStore>("gloo", store_), world, options));
    group_->setDefaultBackend(Group::BackendType::GLOO);
    if (device.is_cuda()) {
      group_->setBackend(c10::DeviceType::CUDA, Group::BackendType::NCCL,
                         make_nccl(c10::make_intrusive<c10d::PrefixStore>("nccl", store_), world,
                                   device, options));
      group_->setDefaultBackend(Group::BackendType::NCCL);
    }
    group_->setGroupName("sgtrain");
  });
}

ProcessGroupCommunicator::~ProcessGroupCommunicator() {
  group_.reset();
  store_.reset();
}

void ProcessGroupCommunicator::fail(const char* operation, const std::exception& cause) const {
  report_peer_failure();
  throw core::Error(
      fmt::format("rank {} of {}: {} failed: {}", world_.rank, world_.world_size, operation,
                  first_line(cause)),
      {},
      fmt::format("another process ended or did not answer within {} s (--dist-timeout): look at "
                  "the other ranks' logs",
                  timeout_.count() / 1000));
}

void ProcessGroupCommunicator::all_reduce(at::Tensor& tensor, ReduceOp op) {
  guarded("all-reduce", [&] {
    std::vector<at::Tensor> list{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = to_c10d(op);
    group_->allreduce(list, options)->wait();
  });
}

void ProcessGroupCommunicator::broadcast(at::Tensor& tensor, int root) {
  guarded("broadcast", [&] {
    std::vector<at::Tensor> list{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(list, options)->wait();
  });
}

// An all-reduce of one number: Gloo's own barrier has other time-out rules.
void ProcessGroupCommunicator::barrier() {
  guarded("barrier", [&] {
    std::vector<at::Tensor> list{at::zeros({1}, at::kFloat)};
    group_->allreduce(list)->wait();
  });
}

void ProcessGroupCommunicator::progress() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_progress_ < std::min<std::chrono::milliseconds>(timeout_ / 10, kProgressPeriod))
    return;
  last_progress_ = now;
  guarded("reporting progress", [&] {
    store_->set(fmt::format("progress/{}", rank()), std::to_string(++progress_count_));
  });
}

void ProcessGroupCommunicator::wait_for_all() {
  guarded("waiting for the other processes", [&] {
    const auto key = [this](int r) { return fmt::format("waits/{}/{}", waits_, r); };
    store_->set(key(rank()), std::string("1"));
    for (int peer = 0; peer < world_size(); ++peer) {
      std::string seen;
      auto deadline = std::chrono::steady_clock::now() + timeout_;
      while (!store_->check({key(peer)})) {
        const std::string name = fmt::format("progress/{}", peer);
        const std::string now = store_->check({name}) ? store_->get_to_str(name) : std::string();
        if (now != seen) deadline = std::chrono::steady_clock::now() + timeout_;
        seen = now;
        if (std::chrono::steady_clock::now() > deadline)
          throw std::runtime_error(fmt::format("rank {} makes no progress", peer));
        std::this_thread::sleep_for(kPollPeriod);
      }
    }
    ++waits_;
    barrier();  // keys of this wait may go once everybody has seen them
    store_->deleteKey(fmt::format("waits/{}/{}", waits_ - 1, rank()));
  });
}

std::vector<std::int64_t> ProcessGroupCommunicator::gather_sizes(std::size_t mine) {
  at::Tensor sizes = at::zeros({world_size()}, at::kLong);
  sizes[rank()] = static_cast<std::int64_t>(mine);
  all_reduce(sizes, ReduceOp::kSum);
  const auto* data = sizes.const_data_ptr<std::int64_t>();
  return {data, data + world_size()};
}

// Each rank's bytes are broadcast in turn: no padding to the longest, and nothing is sent for
// empty ones.
std::vector<std::string> ProcessGroupCommunicator::all_gather(const std::string& bytes) {
  const std::vector<std::int64_t> sizes = gather_sizes(bytes.size());
  std::vector<std::string> out(sizes.size());
  for (int root = 0; root < world_size(); ++root) {
    std::string& slot = out[static_cast<std::size_t>(root)];
    if (root == rank()) slot = bytes;
    slot.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(root)]));
    if (slot.empty()) continue;
    at::Tensor view =
        at::from_blob(slot.data(), {static_cast<std::int64_t>(slot.size())}, at::kByte);
    broadcast(view, root);
  }
  return out;
}

std::string ProcessGroupCommunicator::broadcast(const std::string& bytes, int root) {
  at::Tensor size = at::full({1}, static_cast<std::int64_t>(bytes.size()), at::kLong);
  broadcast(size, root);
  std::string out = rank() == root ? bytes : std::string();
  out.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  if (out.empty()) return out;
  at::Tensor view = at::from_blob(out.data(), {static_cast<std::int64_t>(out.size())}, at::kByte);
  broadcast(view, root);
  return out;
}

std::unique_ptr<Communicator> make_communicator(const World& world, at::Device device,
                                                const CommunicatorOptions& options) {
  // One process that a launcher started may ask for a group, by an address: all of NCCL on one GPU.
  if (world.world_size == 1 && world.master_port == 0) return make_single();
  return std::make_unique<ProcessGroupCommunicator>(world, device, options);
}

}  // namespace sgtrain::dist
