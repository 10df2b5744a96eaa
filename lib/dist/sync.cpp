#include "dist/sync.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "core/error.h"
#include "core/signals.h"
#include "dist/process_group.h"

namespace sgtrain::dist {
namespace {

// One line a tensor, to be compared between ranks.
std::string description(std::span<const tensor::TensorRef> state) {
  std::string out;
  for (const tensor::TensorRef& entry : state) {
    const at::Tensor& t = *entry.tensor;
    out += fmt::format("{} {} [{}]\n", entry.name, at::toString(t.scalar_type()),
                       fmt::join(t.sizes(), ","));
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// FNV-1a, 64 bits, over words where possible: tells equal from different, nothing more.
std::uint64_t hash_bytes(const void* data, std::size_t size) {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  for (; i < size; ++i) hash = (hash ^ bytes[i]) * kPrime;
  return hash;
}

}  // namespace

void check_equal(Communicator& comm, const std::string& what, const std::string& text) {
  if (comm.world_size() == 1) return;
  const std::uint64_t hash = hash_bytes(text.data(), text.size());
  const std::string mine(reinterpret_cast<const char*>(&hash), sizeof hash);
  const auto all = comm.all_gather(mine);
  const auto odd = std::find_if(all.begin(), all.end(),
                                [&](const std::string& other) { return other != all[0]; });
  if (odd == all.end()) return;
  const int rank = static_cast<int>(odd - all.begin());
  const std::string theirs = comm.broadcast(text, rank);
  const std::string first = comm.broadcast(text, 0);
  const auto a = lines_of(first), b = lines_of(theirs);
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const auto line = [at](const auto& list) {
    return at < list.size() ? std::string(list[at]) : std::string("(nothing)");
  };
  throw core::Error(fmt::format("{} differs between processes, first in line {}:\n  rank 0: {}\n"
                                "  rank {}: {}",
                                what, at + 1, line(a), rank, line(b)),
                    {}, "start all processes with the same recipe and options");
}

void broadcast_state(Communicator& comm, std::span<const tensor::TensorRef> state) {
  auto* group = dynamic_cast<ProcessGroupCommunicator*>(&comm);
  if (group == nullptr) return;
  check_equal(comm, "the model", description(state));
  std::vector<at::Tensor> tensors;
  for (const tensor::TensorRef& entry : state) {
    if (entry.tensor->numel() > 0) tensors.push_back(entry.tensor->detach());
  }
  constexpr std::size_t kChunkBytes = 32 << 20;
  try {
    c10d::broadcast_coalesced(group->group(), tensors, kChunkBytes, 0);
  } catch (const std::exception& error) {
    group->fail("broadcasting the initial weights", error);
  }
}

int agreed_stop_signal(Communicator& comm) {
  if (comm.world_size() == 1) return core::signals::stop_signal();
  at::Tensor signal = at::full({1}, core::signals::stop_signal(), at::kInt);
  comm.all_reduce(signal, ReduceOp::kMax);
  const int number = signal.item<int>();
  if (number != 0 && !core::signals::stop_requested()) core::signals::request_stop(number);
  return number;
}

void check_in_sync(Communicator& comm, std::span<const tensor::TensorRef> state) {
  tensor::StateDict tensors;
  for (const tensor::TensorRef& ref : state) tensors.emplace_back(ref.name, *ref.tensor);
  check_in_sync(comm, tensors);
}

void check_in_sync(Communicator& comm, const tensor::StateDict& state) {
  if (comm.world_size() == 1) return;
  std::string names;
  for (const auto& [name, value] : state) names += name + "\n";
  check_equal(comm, "the list of tensors", names);
  at::Tensor hashes = at::zeros({static_cast<std::int64_t>(state.size())}, at::kLong);
  auto* out = hashes.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < state.size(); ++i) {
    const at::Tensor bytes = state[i].second.detach().cpu().contiguous();
    out[i] = static_cast<std::int64_t>(hash_bytes(bytes.const_data_ptr(), bytes.nbytes()));
  }
  at::Tensor low = hashes.clone(), high = hashes.clone();
  comm.all_reduce(low, ReduceOp::kMin);
  comm.all_reduce(high, ReduceOp::kMax);
  const at::Tensor differs = at::nonzero(low != high);
  if (differs.numel() == 0) return;
  const auto first = static_cast<std::size_t>(differs[0][0].item<std::int64_t>());
  throw core::Error(fmt::format("processes are out of step: {} of {} tensors differ, first '{}'",
                                differs.size(0), state.size(), state[first].first));
}

}  // namespace sgtrain::dist
