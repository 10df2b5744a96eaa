#include <stdlib.h>

#include <catch2/catch.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dist/launcher.h"

using namespace sgtrain;
using dist::World;

namespace {

/// Sets environment variables and restores the old ones.
class Env {
 public:
  using Pair = std::pair<const char*, const char*>;
  Env(std::initializer_list<Pair> values) {
    for (const auto& [name, value] : values) {
      const char* old = getenv(name);
      old_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
      setenv(name, value, 1);
    }
  }
  ~Env() {
    for (const auto& [name, value] : old_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

}  // namespace

TEST_CASE("alone") {
  const World world = World::from_environment();
  CHECK(world.world_size == 1);
  CHECK_FALSE(world.joined);
  CHECK(world.is_main());
}

TEST_CASE("torchrun's variables") {
  const Env env{{"RANK", "5"},
                {"WORLD_SIZE", "8"},
                {"LOCAL_RANK", "1"},
                {"LOCAL_WORLD_SIZE", "4"},
                {"MASTER_ADDR", "node0"},
                {"MASTER_PORT", "29500"},
                {"TORCHELASTIC_RUN_ID", "none"}};
  const World world = World::from_environment();
  CHECK(world.rank == 5);
  CHECK(world.local_rank == 1);
  CHECK(world.world_size == 8);
  CHECK(world.local_world_size == 4);
  CHECK(world.master_addr == "node0");
  CHECK(world.master_port == 29500);
  CHECK(world.joined);
  CHECK(world.launched_by == "torchrun");
}

TEST_CASE("variables of a PyTorchJob: one process a pod, the master is another machine") {
  const Env env{{"RANK", "3"},
                {"WORLD_SIZE", "4"},
                {"MASTER_ADDR", "sgtrain-master-0"},
                {"MASTER_PORT", "23456"}};
  const World world = World::from_environment();
  CHECK(world.rank == 3);
  CHECK(world.local_rank == 0);
  CHECK(world.local_world_size == 1);
  const Env here{{"MASTER_ADDR", "127.0.0.1"}};  // by hand, on one machine
  CHECK(World::from_environment().local_rank == 3);
  CHECK(World::from_environment().local_world_size == 4);
}

TEST_CASE("variables that contradict each other or are missing") {
  {
    const Env alone{{"RANK", "0"}};
    CHECK_THROWS_AS(World::from_environment(), core::InputError);
  }
  const Env both{{"RANK", "2"}, {"WORLD_SIZE", "2"}};
  CHECK_THROWS_WITH(World::from_environment(), Catch::Contains("RANK is 2"));
  const Env in_range{{"RANK", "1"}};
  CHECK_THROWS_WITH(World::from_environment(), Catch::Contains("MASTER_PORT"));
  const Env port{{"MASTER_PORT", "1234"}};
  CHECK_THROWS_WITH(World::from_environment(), Catch::Contains("MASTER_ADDR"));
  const Env words{{"MASTER_PORT", "http"}};
  CHECK_THROWS_WITH(World::from_environment(), Catch::Contains("http"));
}

TEST_CASE("a program that a rank started does not take its place") {
  const Env env{{"RANK", "1"},
                {"WORLD_SIZE", "2"},
                {"MASTER_ADDR", "127.0.0.1"},
                {"MASTER_PORT", "29500"},
                {"SGTRAIN_STATUS_FD", "987"}};
  CHECK_THROWS_WITH(World::from_environment(), Catch::Contains("inside rank 1 of another"));
}

TEST_CASE("Slurm's variables of a step") {
  const Env env{{"SLURM_STEP_NUM_TASKS", "8"},
                {"SLURM_PROCID", "6"},
                {"SLURM_LOCALID", "2"},
                {"SLURM_STEP_NUM_NODES", "2"},
                {"SLURM_STEP_NODELIST", "gpu[07-09,12],big1"},
                {"SLURM_JOB_ID", "4711"}};
  const World world = World::from_environment();
  CHECK(world.rank == 6);
  CHECK(world.local_rank == 2);
  CHECK(world.local_world_size == 4);
  CHECK(world.master_addr == "gpu07");
  CHECK(world.master_port > 1024);
  CHECK(world.launched_by == "Slurm");
  const Env plain{{"SLURM_STEP_NODELIST", "alpha,beta"}};
  CHECK(World::from_environment().master_addr == "alpha");
  const Env suffix{{"SLURM_STEP_NODELIST", "n[1,3]-ib,other"}};
  CHECK(World::from_environment().master_addr == "n1-ib");
}

TEST_CASE("a batch script of Slurm is no rank") {
  const Env env{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}};
  CHECK_FALSE(World::from_environment().joined);
}
