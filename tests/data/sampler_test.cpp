// Orders and shards: pure functions of (seed, epoch), every image where it belongs.
#include "data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "core/error.h"

using namespace sgtrain;
using data::Shard;

namespace {

/// A data set that has only labels: index % classes, class 0 nine times as often as the others.
class Labels final : public data::Dataset {
 public:
  explicit Labels(std::int64_t size) : size_(size) {}
  data::Task task() const override { return data::Task::kClassification; }
  std::int64_t size() const override { return size_; }
  data::Annotation annotation(std::int64_t index) const override {
    return {.label = index % 10 == 9 ? 1 : 0, .boxes = {}, .size = {}, .image_id = index};
  }
  data::Sample load(std::int64_t) const override { return {}; }
  std::string image_path(std::int64_t) const override { return {}; }
  const std::vector<std::string>& class_names() const override { return names_; }
  const data::Report& report() const override { return report_; }

 private:
  std::int64_t size_;
  std::vector<std::string> names_{"many", "few"};
  data::Report report_;
};

std::vector<std::int64_t> order_of(const char* name, const Labels& dataset, std::int64_t epoch = 0,
                                   int shards = 1, core::TreePtr params = core::Tree::make_map()) {
  const auto problems = std::make_shared<core::Problems>();
  const auto maker = data::Sampler::registry().parse({name, core::Node(params, problems)});
  problems->throw_if_any("sampler");
  return maker()->order(dataset, 42, epoch, shards);
}

}  // namespace

TEST_CASE("shuffles are permutations that change with seed and epoch only", "[sampler]") {
  const auto a = data::shuffled(100, 1, 0);
  CHECK(a == data::shuffled(100, 1, 0));
  CHECK(a != data::shuffled(100, 1, 1));
  CHECK(a != data::shuffled(100, 2, 0));
  CHECK(std::set<std::int64_t>(a.begin(), a.end()).size() == 100);
  // No position prefers an index.
  std::map<std::int64_t, int> first;
  for (int epoch = 0; epoch < 5000; ++epoch) ++first[data::shuffled(5, 7, epoch)[0]];
  for (const auto& [index, count] : first) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("validation shards score each image exactly once", "[sampler]") {
  for (const int count : {1, 2, 3, 9}) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < count; ++rank) {
      for (const data::Item& item :
           data::shard_items({0, 1, 2, 3, 4, 5, 6}, {rank, count}, false)) {
        all.push_back(item.index);
        CHECK(item.repeat == 0);
      }
    }
    std::sort(all.begin(), all.end());
    CHECK(all == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("training shards are equally long and together follow the order", "[sampler]") {
  const auto order = data::shuffled(7, 3, 0);
  const auto one = data::shard_items(order, {0, 1}, true);
  for (const int count : {2, 3}) {
    std::vector<data::Item> joined;
    const std::size_t length = (7 + count - 1) / count;
    for (std::size_t i = 0; i < length; ++i) {
      for (int rank = 0; rank < count; ++rank) {
        const auto items = data::shard_items(order, {rank, count}, true);
        REQUIRE(items.size() == length);
        joined.push_back(items[i]);
      }
    }
    CHECK(std::equal(one.begin(), one.end(), joined.begin()));
    // What fills up is a repeat: it is augmented differently.
    for (std::size_t i = 7; i < joined.size(); ++i) CHECK(joined[i].repeat == 1);
  }
}

TEST_CASE("batches: drop_last, and no training batch of one image", "[sampler]") {
  using Cuts = std::vector<std::int64_t>;
  CHECK(data::cut_batches(10, {4, false, false}) == Cuts{0, 4, 8, 10});
  CHECK(data::cut_batches(10, {4, true, true}) == Cuts{0, 4, 8});
  CHECK(data::cut_batches(9, {4, false, true}) == Cuts{0, 4, 9});  // 4 and 5
  CHECK(data::cut_batches(9, {4, false, false}) == Cuts{0, 4, 8, 9});
  CHECK(data::cut_batches(9, {4, true, true}) == Cuts{0, 4, 8});
  CHECK(data::cut_batches(3, {1, false, true}) == Cuts{0, 1, 2, 3});
  CHECK(data::cut_batches(1, {4, false, true}) == Cuts{0, 1});
  CHECK(data::cut_batches(0, {4, false, true}) == Cuts{0});
}

TEST_CASE("an epoch without batches is an error with ways out", "[sampler]") {
  CHECK_THROWS_WITH(data::checked_batch_count(5, 5, {16, true, true}, {}, "r.yaml:3"),
                    Catch::Contains("0 batches: 5 images, batch 16, drop_last") &&
                        Catch::Contains("r.yaml:3") && Catch::Contains("batch_size to 5") &&
                        Catch::Contains("drop_last: false") && Catch::Contains("min_samples: 16"));
  CHECK_THROWS_WITH(data::checked_batch_count(7, 4, {8, true, true}, {0, 2}, ""),
                    Catch::Contains("7 images over 2 processes"));
  CHECK_THROWS_WITH(data::checked_batch_count(0, 0, {8, false, false}, {}, ""),
                    Catch::Contains("0 images"));
  CHECK(data::checked_batch_count(5, 5, {16, false, true}, {}, "") == 1);
  CHECK(data::checked_batch_count(1, 0, {4, false, false}, {1, 2}, "") == 0);  // the other has it
}

TEST_CASE("samplers by name", "[sampler]") {
  const Labels dataset(1000);
  const auto sequential = order_of("SequentialSampler", dataset);
  CHECK(std::is_sorted(sequential.begin(), sequential.end()));
  CHECK(order_of("RandomSampler", dataset) == data::shuffled(1000, 42, 0));
  CHECK(order_of("DistributedSampler", dataset) == data::shuffled(1000, 42, 0));
  CHECK_THROWS_WITH(order_of("RandomSampeler", dataset), Catch::Contains("RandomSampler"));

  const auto more = data::shuffled_rounds(5, 12, 1, 0);
  REQUIRE(more.size() == 12);
  CHECK(std::set<std::int64_t>(more.begin(), more.begin() + 5).size() == 5);
  CHECK(std::set<std::int64_t>(more.begin() + 5, more.begin() + 10).size() == 5);
}

TEST_CASE("repeated augmentation shows neighbours the same image", "[sampler]") {
  const Labels dataset(1000);
  const auto order = order_of("RepeatAugSampler", dataset, 0, 3);
  CHECK(order.size() == 3 * static_cast<std::size_t>(768 / 3));
  for (std::size_t i = 0; i + 2 < order.size(); i += 3) CHECK(order[i] == order[i + 2]);
  std::set<int> repeats;
  for (int rank = 0; rank < 3; ++rank)
    repeats.insert(data::shard_items(order, {rank, 3}, true)[0].repeat);
  CHECK(repeats == std::set<int>{0, 1, 2});
}

TEST_CASE("rare classes are drawn more often", "[sampler]") {
  const Labels dataset(1000);  // a tenth has class 1
  const core::TreePtr params = core::Tree::make_map();
  params->set("oversample_threshold", core::Tree::of(0.9));
  const auto order = order_of("ClassBalancedSampler", dataset, 0, 1, params);
  REQUIRE(order.size() == 1000);
  const auto few =
      std::count_if(order.begin(), order.end(), [](std::int64_t i) { return i % 10 == 9; });
  // Factor (0.9 / 0.1)^0.5 = 3: 300 against 900 of 1200, a quarter.
  CHECK(few > 200);
  CHECK(few < 300);
}
