// Which epochs enter the average of the best ones, and their mean.
#include <catch2/catch.hpp>

#include <filesystem>
#include <limits>

#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"
#include "train/averaging.h"

using namespace sgtrain;
using train::offer_epoch;
using train::ScoredEpoch;

namespace {

std::vector<int> epochs(const std::vector<ScoredEpoch>& slots) {
  std::vector<int> out;
  for (const ScoredEpoch& slot : slots) out.push_back(slot.epoch);
  return out;
}

}  // namespace

TEST_CASE("the best epochs stay, the worst gives way, NaN never enters", "[train]") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<ScoredEpoch> slots;
  CHECK(offer_epoch(slots, {0, 0.3}, true, 3).added);
  CHECK_FALSE(offer_epoch(slots, {1, kNaN}, true, 3).added);
  CHECK_FALSE(offer_epoch(slots, {2, kInf}, true, 3).added);
  CHECK(offer_epoch(slots, {3, 0.1}, true, 3).added);
  CHECK(offer_epoch(slots, {4, 0.2}, true, 3).added);
  CHECK_FALSE(offer_epoch(slots, {5, 0.1}, true, 3).added);  // not better than the worst
  const auto change = offer_epoch(slots, {6, 0.25}, true, 3);
  CHECK(change.added);
  CHECK(change.dropped == 3);
  CHECK(epochs(slots) == std::vector<int>{0, 6, 4});

  std::vector<ScoredEpoch> losses{{0, 2.0}, {1, 1.0}};
  CHECK(offer_epoch(losses, {2, 1.5}, false, 2).dropped == 0);
  CHECK(epochs(losses) == std::vector<int>{2, 1});
  std::vector<ScoredEpoch> none;
  CHECK_FALSE(offer_epoch(none, {0, 1.0}, true, 0).added);
}

TEST_CASE("the average is the mean of the files' weights", "[train]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("averaging" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::vector<fs::path> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(folder / (std::to_string(i) + ".pth"));
    const tensor::StateDict state{{"w", at::full({2}, i * 1.0)},
                                  {"count", at::full({}, i, at::kLong)}};
    tensor::write_pth(files.back(), tensor::Value::dict({{"net", tensor::from_state_dict(state)}}));
  }
  const auto mean = train::average_weights(files);
  fs::remove_all(folder);
  REQUIRE(mean.size() == 2);
  CHECK(at::allclose(mean[0].second, at::full({2}, 1.5)));
  CHECK(mean[1].second.item<int>() == 3);
}
