// Makes the communicator of a run: none needed (single), Gloo on CPUs, NCCL on GPUs.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/launcher.h"

namespace sgtrain::dist {

struct CommunicatorOptions {
  /// A collective that takes longer is an error on the ranks that wait (`--dist-timeout`); also
  /// the longest wait for all ranks to join.
  std::chrono::milliseconds timeout{std::chrono::minutes(30)};
  /// Network interface of Gloo ("eth0"); empty: loopback when the master address is this machine
  /// (127.0.0.1, localhost), else the one that reaches the master; GLOO_SOCKET_IFNAME counts too.
  std::string interface {};
};

/// world_size 1 and no address of a store: make_single(). Else joins the others: blocks until all
/// are there.
/// `device` is the one this rank computes on: CPU (Gloo) or CUDA (NCCL, and Gloo for CPU tensors).
/// Every failure of a collective is a core::Error that names the operation, the rank and, as far
/// as known, the peer.
std::unique_ptr<Communicator> make_communicator(const World& world, at::Device device,
                                                const CommunicatorOptions& options = {});

}  // namespace sgtrain::dist
