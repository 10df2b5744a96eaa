// In which order images are visited, and how an epoch is cut into batches and shards. Everything is
// a pure function of (data set, seed, epoch, shard): a resumed run continues the same order, and
// any number of processes visits the same images.
//
// A new sampler is one file in data/samplers/, last line SGTRAIN_REGISTER(Sampler, Class, "Name").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/registry.h"
#include "data/dataset.h"

namespace sgtrain::data {

/// One of `count` processes that share an epoch.
struct Shard {
  int index = 0;
  int count = 1;
};

/// An image to load: its index, and how often it came before in this epoch (so that repeats are
/// augmented differently).
struct Item {
  std::int64_t index = 0;
  std::int32_t repeat = 0;
  bool operator==(const Item&) const = default;
};

class Sampler {
 public:
  using Registry = core::Registry<Sampler>;
  static Registry& registry();

  virtual ~Sampler() = default;
  /// Indices of the whole epoch, over all shards. May repeat indices and leave some out.
  virtual std::vector<std::int64_t> order(const Dataset& dataset, std::uint64_t seed,
                                          std::int64_t epoch, int shards) const = 0;
};

/// Every index once, shuffled by (seed, epoch).
std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// `wanted` indices: one shuffle after the other, so that no index comes twice before all came
/// once. The first is shuffled(size, seed, epoch).
std::vector<std::int64_t> shuffled_rounds(std::int64_t size, std::int64_t wanted,
                                          std::uint64_t seed, std::int64_t epoch);

/// The items of one shard: every `count`-th of the order, beginning with `index`. In training all
/// shards are equally long (the order's beginning is repeated to fill up, as torch's
/// DistributedSampler does); else each item goes to exactly one shard.
std::vector<Item> shard_items(std::vector<std::int64_t> order, const Shard& shard, bool training);

/// How an epoch is cut.
struct BatchRules {
  std::int64_t batch_size = 1;
  bool drop_last = false;
  bool training = false;
};

/// First item of each batch, then the end: batch b is [out[b], out[b + 1]). In training a last
/// batch of one image joins the batch before it, because batch norm over one value per channel is
/// undefined.
std::vector<std::int64_t> cut_batches(std::int64_t items, const BatchRules& rules);

/// Number of batches; errors: core::InputError when there is none ("0 batches: 5 images, batch 16,
/// drop_last"), naming three ways out. `where` is file:line of the loader's parameters.
std::int64_t checked_batch_count(std::int64_t images, std::int64_t items, const BatchRules& rules,
                                 const Shard& shard, std::string_view where);

}  // namespace sgtrain::data
