// How the processes of one run talk to each other. Single, Gloo and NCCL are one file each.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sgtrain::dist {

enum class ReduceOp { kSum, kMin, kMax };

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  bool is_main() const { return rank() == 0; }

  /// In place, over all ranks; the tensor is contiguous and of equal shape everywhere.
  virtual void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::kSum) = 0;
  virtual void broadcast(at::Tensor& tensor, int root = 0) = 0;
  virtual void barrier() = 0;
  /// For long work of unequal length without collectives (validation): each rank says from time to
  /// time that it goes on, then all wait for each other. Only a rank that says nothing for the
  /// time-out is an error, however long the work takes.
  virtual void progress() {}
  virtual void wait_for_all() {}
  /// Bytes of any length from every rank, in order of rank, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  /// Bytes of `root` on every rank.
  virtual std::string broadcast(const std::string& bytes, int root = 0) = 0;
};

/// The only process of its run: every call is the identity.
std::unique_ptr<Communicator> make_single();

}  // namespace sgtrain::dist
