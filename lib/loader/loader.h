// From a data set to mini-batches: threads of this process read, decode and transform images into
// pooled memory, a bounded number of batches ahead. Which images a batch holds and every augmented
// byte is a pure function of (seed, epoch, position): not of the number of threads or processes,
// nor of timing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/node.h"
#include "core/stage_clock.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "data/transform.h"
#include "loader/batch_transform.h"
#include "tensor/batch.h"

namespace sgtrain::loader {

/// What becomes of an image that cannot be decoded. Each is named once.
enum class BadImages {
  kSkip,   // training: the next image takes its place; else the batch is smaller
  kError,  // next() throws
};

/// `train_dataloader_params` / `val_dataloader_params`.
struct LoaderParams {
  std::string where;  // file:line, for messages
  std::int64_t batch_size = 1;
  int num_workers = 0;  // threads; 0: the calling thread loads
  bool drop_last = false;
  bool shuffle = false;
  int prefetch_factor = 2;                  // batches made ahead, at least
  bool pin_memory = false;                  // takes effect when the run uses a GPU
  std::optional<std::int64_t> min_samples;  // repeat images until an epoch has as many
  BadImages bad_images = BadImages::kSkip;
  data::Sampler::Registry::MakerType sampler;                         // empty: by `shuffle`
  std::vector<BatchTransform::Registry::MakerType> batch_transforms;  // from `collate_fn`

  /// Reads every key of the map but `dataset`.
  static LoaderParams from(core::Node& node);
};

/// Where a loader stands in its run.
struct LoaderSetup {
  std::uint64_t seed = 0;
  data::Shard shard;
  bool training = false;
  bool pinned = false;  // page-locked memory, for fast copies to a GPU
};

/// Where the time went since begin().
struct LoaderStats {
  core::StageTimes stages{};  // nanoseconds, summed over threads
  std::int64_t wait = 0;      // nanoseconds that next() made its caller wait
  std::int64_t wall = 0;      // nanoseconds since begin()
  std::int64_t images = 0, batches = 0;
  std::int64_t skipped = 0;  // images that could not be decoded
  int threads = 0;

  /// "412 images/s; per image: read 0.1, decode 1.3, augment 0.9, collate 0.0 ms on 2 threads; the
  /// run waited 3 % of the time: …", naming the slowest stage where waiting matters.
  std::string text() const;
};

class Loader {
 public:
  /// The data set and the pipeline must outlive the loader. Errors: core::InputError when an epoch
  /// would have no batch.
  Loader(const data::Dataset& dataset, const data::Pipeline& pipeline, const LoaderParams& params,
         const LoaderSetup& setup);
  /// Stops the threads within one image's work.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Batches of one epoch of this shard.
  std::int64_t batches() const;
  /// Images of one epoch over all shards (repeats counted).
  std::int64_t images() const;
  const data::Pipeline& pipeline() const;
  const data::Dataset& dataset() const;
  const LoaderParams& params() const;

  /// Starts an epoch at a batch (resuming); loading begins at once. An unfinished epoch is dropped.
  void begin(std::int64_t epoch, std::int64_t start_batch = 0);
  /// The next batch, nullopt at the end of the epoch. Images are uint8 [B, H, W, 3] in the order
  /// of the pipeline; their memory is used again when the last reference goes. Errors of a thread
  /// are thrown here, with the image's name.
  std::optional<tensor::Batch> next();
  /// Number of the batch that next() gave last, within the epoch.
  std::int64_t position() const;

  /// Mixup and the like, in order, to be applied to the normalised batch on the device.
  const std::vector<std::unique_ptr<BatchTransform>>& batch_transforms() const;
  /// The random stream of a batch's transforms: same on every run, other on every shard.
  core::Random batch_random(std::int64_t epoch, std::int64_t batch) const;

  LoaderStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sgtrain::loader
