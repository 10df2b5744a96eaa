#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace sgtrain::data {
namespace {

/// Separates the shuffling stream from the samples' own streams.
constexpr std::uint64_t kShuffleStream = 0x5348554646;

}  // namespace

Sampler::Registry& Sampler::registry() {
  static Registry registry("sampler");
  return registry;
}

std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  core::Random random{kShuffleStream, seed, static_cast<std::uint64_t>(epoch)};
  random.shuffle(order);
  return order;
}

std::vector<std::int64_t> shuffled_rounds(std::int64_t size, std::int64_t wanted,
                                          std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> out;
  if (size == 0) return out;
  out.reserve(static_cast<std::size_t>(wanted));
  for (std::uint64_t round = 0; static_cast<std::int64_t>(out.size()) < wanted; ++round) {
    const auto part = shuffled(size, round == 0 ? seed : core::mix64(seed + round), epoch);
    const auto take = std::min<std::int64_t>(size, wanted - static_cast<std::int64_t>(out.size()));
    out.insert(out.end(), part.begin(), part.begin() + take);
  }
  return out;
}

std::vector<Item> shard_items(std::vector<std::int64_t> order, const Shard& shard, bool training) {
  const auto count = static_cast<std::size_t>(shard.count);
  if (training && !order.empty()) {
    const std::size_t given = order.size();
    const std::size_t wanted = (given + count - 1) / count * count;
    for (std::size_t i = given; i < wanted; ++i) order.push_back(order[(i - given) % given]);
  }
  const auto largest = order.empty() ? 0 : *std::max_element(order.begin(), order.end());
  std::vector<std::int32_t> seen(static_cast<std::size_t>(largest) + 1);
  std::vector<Item> out;
  out.reserve(order.size() / count + 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t repeat = seen[static_cast<std::size_t>(order[i])]++;
    if (i % count == static_cast<std::size_t>(shard.index)) out.push_back({order[i], repeat});
  }
  return out;
}

std::vector<std::int64_t> cut_batches(std::int64_t items, const BatchRules& rules) {
  std::vector<std::int64_t> out{0};
  for (std::int64_t end = rules.batch_size; end <= items; end += rules.batch_size) {
    out.push_back(end);
  }
  const std::int64_t rest = items - out.back();
  if (rest == 0 || rules.drop_last) return out;
  if (rest == 1 && rules.training && out.size() > 1 && rules.batch_size > 1) {
    out.back() = items;
  } else {
    out.push_back(items);
  }
  return out;
}

std::int64_t checked_batch_count(std::int64_t images, std::int64_t items, const BatchRules& rules,
                                 const Shard& shard, std::string_view where) {
  const auto batches = static_cast<std::int64_t>(cut_batches(items, rules).size()) - 1;
  if (batches > 0) return batches;
  if (images > 0 && !rules.training && shard.count > images) return 0;  // others have them
  std::string what = "0 batches: " + std::to_string(images) + " images";
  if (shard.count > 1) {
    what +=
        " over " + std::to_string(shard.count) + " processes (" + std::to_string(items) + " here)";
  }
  what += ", batch " + std::to_string(rules.batch_size);
  if (rules.drop_last) what += ", drop_last";
  if (images == 0) throw core::InputError(what, where, "check the data set's paths and filters");
  throw core::InputError(what, where,
                         "set batch_size to " + std::to_string(std::max<std::int64_t>(items, 1)) +
                             " or less, or drop_last: false, or min_samples: " +
                             std::to_string(rules.batch_size * shard.count) + " (repeats images)");
}

}  // namespace sgtrain::data
