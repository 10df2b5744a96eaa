#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "dist/communicator.h"
#include "dist/factory.h"
#include "dist/sync.h"
#include "support/ranks.h"

using namespace sgtrain;

TEST_CASE("rank: collectives", "[.][rank]") {
  const auto comm = support::join();
  const int rank = comm->rank(), n = comm->world_size();
  CHECK(n == core::environment_int("EXPECTED_RANKS"));

  at::Tensor x = at::full({3, 2}, rank + 1, at::kDouble);
  comm->all_reduce(x);
  CHECK(at::equal(x, at::full({3, 2}, n * (n + 1) / 2, at::kDouble)));
  at::Tensor low = at::full({1}, rank, at::kLong), high = low.clone();
  comm->all_reduce(low, dist::ReduceOp::kMin);
  comm->all_reduce(high, dist::ReduceOp::kMax);
  CHECK(low.item<std::int64_t>() == 0);
  CHECK(high.item<std::int64_t>() == n - 1);

  at::Tensor y = at::full({4}, rank, at::kFloat);
  comm->broadcast(y, n - 1);
  CHECK(at::equal(y, at::full({4}, n - 1, at::kFloat)));

  // Bytes of different lengths, one of them empty, zeros inside.
  const std::string mine(static_cast<std::size_t>(rank) * 1000, static_cast<char>(rank));
  const auto all = comm->all_gather(mine);
  REQUIRE(all.size() == static_cast<std::size_t>(n));
  for (int r = 0; r < n; ++r) {
    CHECK(all[static_cast<std::size_t>(r)] ==
          std::string(static_cast<std::size_t>(r) * 1000, static_cast<char>(r)));
  }
  CHECK(comm->broadcast("from " + std::to_string(rank), 1) == "from 1");
  CHECK(comm->broadcast(rank == 0 ? "" : "x", 0).empty());
  comm->barrier();
  CHECK(dist::is_main() == (rank == 0));
  int calls = 0;
  dist::on_main([&] { ++calls; });
  CHECK(calls == (rank == 0 ? 1 : 0));
}

TEST_CASE("collectives of 2 and 4 processes") {
  for (const int n : {2, 4}) {
    CHECK(support::run_ranks(n, "rank: collectives", {{"EXPECTED_RANKS", std::to_string(n)}}) == 0);
  }
}

TEST_CASE("rank: long work", "[.][rank]") {
  using namespace std::chrono_literals;
  const auto comm = support::join(2s);
  for (int round = 0; round < 2; ++round) {
    // Rank 1 needs longer than the time-out, but goes on all the time.
    const auto end = std::chrono::steady_clock::now() + (comm->rank() == 1 ? 3s : 0s);
    while (std::chrono::steady_clock::now() < end) {
      comm->progress();
      std::this_thread::sleep_for(50ms);
    }
    CHECK_NOTHROW(comm->wait_for_all());
  }
  if (comm->rank() == 1) std::this_thread::sleep_for(6s);  // says nothing
  if (comm->rank() == 0)
    CHECK_THROWS_WITH(comm->wait_for_all(), Catch::Contains("rank 1 makes no progress"));
}

TEST_CASE("work longer than the time-out is waited for while it goes on") {
  CHECK(support::run_ranks(2, "rank: long work") == 0);
}

TEST_CASE("a single process is its own communicator") {
  const auto comm = dist::make_communicator({}, at::Device(at::kCPU));
  at::Tensor x = at::ones({2});
  comm->all_reduce(x);
  CHECK(x.sum().item<float>() == 2);
  CHECK(comm->all_gather("a") == std::vector<std::string>{"a"});
  CHECK(comm->broadcast("b") == "b");
  CHECK(comm->is_main());
  CHECK(dist::is_main());
}

TEST_CASE("rank: different recipes", "[.][rank]") {
  const auto comm = support::join();
  dist::check_equal(*comm, "the recipe", "lr: 0.1\nepochs: 3\n");
  const std::string recipe = comm->rank() == 1 ? "lr: 0.1\nepochs: 4\n" : "lr: 0.1\nepochs: 3\n";
  CHECK_THROWS_WITH(dist::check_equal(*comm, "the recipe", recipe),
                    Catch::Contains("line 2") && Catch::Contains("rank 0: epochs: 3") &&
                        Catch::Contains("rank 1: epochs: 4"));
}

TEST_CASE("recipes that differ between ranks are found by all of them") {
  CHECK(support::run_ranks(3, "rank: different recipes") == 0);
}
