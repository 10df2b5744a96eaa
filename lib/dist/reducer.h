// Mean gradients over the ranks after every backward.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/communicator.h"
#include "dist/sync.h"
#include "tensor/module.h"

namespace sgtrain::dist {

/// All-reduces gradients in buckets while backward still runs (c10d::Reducer, Li et al., "PyTorch
/// Distributed", VLDB 2020). Gradients are views into the buckets: zero them in place, never
/// reset them. In a single process every call does nothing.
///
///   dist::Reducer reducer(comm, model.named_parameters());
///   for each micro-batch:
///     reducer.before_forward(is_last_micro_batch);
///     loss = …;
///     reducer.backward(loss);  // after it, grad() is the mean over ranks (of the accumulated sum)
///
/// The gradient is the mean over ranks; a loss that is already divided by the global normaliser is
/// multiplied by world_size() before backward to get the sum.
class Reducer {
 public:
  enum class Compression { kNone, kFp16, kBf16 };
  struct Options {
    std::int64_t bucket_bytes = 25 << 20;
    std::int64_t first_bucket_bytes = 1 << 20;  // small, so that communication starts early
    Compression compression = Compression::kNone;
  };

  /// `parameters`: leaves that require grad and get one in every backward on every rank, same
  /// order everywhere; leave out those known to be unused. Collective.
  /// Keeps a reference to the communicator.
  Reducer(Communicator& comm, std::vector<tensor::TensorRef> parameters, const Options& options);
  Reducer(Communicator& comm, std::vector<tensor::TensorRef> parameters);
  ~Reducer();

  /// `sync`: gradients are reduced in the coming backward (the last micro-batch of an
  /// accumulation); otherwise they only add up locally. The same on all ranks.
  void before_forward(bool sync = true);
  /// loss.backward(), reducing gradients meanwhile. A lost peer is the error of collectives.
  void backward(const at::Tensor& loss);

  /// How long gradients were on their way in the backwards so far. Measured on CPUs.
  struct Traffic {
    std::int64_t steps = 0;
    double seconds = 0.0;  // in which at least one bucket was under way
    double waited = 0.0;   // of these, after the last gradient was computed
    double hidden_share() const { return seconds > 0.0 ? 1.0 - waited / seconds : 0.0; }
  };
  Traffic traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sgtrain::dist
