// How many processes a recipe asks for: SuperGradients' rules for multi_gpu and num_gpus.
#include "train/launch_plan.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/yaml.h"

using namespace sgtrain;

namespace {

struct Read {
  train::LaunchPlan plan;
  std::string problems, notes;
};

Read read(const std::string& yaml) {
  const auto problems = std::make_shared<core::Problems>();
  core::Node root(core::parse_yaml(yaml, "recipe.yaml", *problems), problems);
  Read out{.plan = train::LaunchPlan::from(root), .problems = {}, .notes = {}};
  for (const auto& item : problems->items()) out.problems += item.path + ": " + item.text + "\n";
  for (const std::string& note : problems->notes()) out.notes += note + "\n";
  return out;
}

int gpus(const std::string& yaml) {
  const Read r = read(yaml);
  CHECK(r.problems.empty());
  return r.plan.processes;
}

}  // namespace

TEST_CASE("processes on GPUs") {
  CHECK(gpus("device: cuda") == 1);
  CHECK(gpus("{multi_gpu: Off}") == 1);
  CHECK(gpus("{multi_gpu: Off, num_gpus: 1}") == 1);
  CHECK(gpus("{multi_gpu: Off, num_gpus: -1}") == 1);
  CHECK(gpus("num_gpus: 4") == 4);  // AUTO
  CHECK(gpus("{multi_gpu: AUTO}") == -1);
  CHECK(gpus("{multi_gpu: DDP}") == -1);
  CHECK(gpus("{multi_gpu: DistributedDataParallel, num_gpus: 2}") == 2);
  CHECK(gpus("{multi_gpu: AUTO, num_gpus: all}") == -1);
  CHECK(gpus("device: all") == -1);
  CHECK(gpus("device: 0,2,3") == 3);
  CHECK(gpus("{device: cuda:1, multi_gpu: AUTO}") == 1);
}

TEST_CASE("contradictions are mistakes of the recipe") {
  const auto problems = [](const std::string& yaml) { return read(yaml).problems; };
  CHECK_THAT(problems("{multi_gpu: Off, num_gpus: 4}"), Catch::Contains("multi_gpu is Off"));
  CHECK_THAT(problems("{multi_gpu: Off, num_gpus: 0}"), Catch::Contains("device: cpu"));
  CHECK_THAT(problems("{multi_gpu: AUTO, num_gpus: 0}"), Catch::Contains("device: cpu"));
  CHECK_THAT(problems("multi_gpu: DP"), Catch::Contains("use DDP"));
  CHECK_THAT(problems("multi_gpu: sometimes"), Catch::Contains("Off, AUTO or DDP"));
  // By a flag, which marks the number as a demand.
  CHECK_THAT(problems("{device: cpu, num_gpus: 2, dist: {gpus_demanded: true}}"),
             Catch::Contains("--processes N"));
  CHECK_THAT(problems("{device: '0,1,2', num_gpus: 2, dist: {gpus_demanded: true}}"),
             Catch::Contains("device names 3 GPUs"));
}

TEST_CASE("a recipe for GPUs on the CPU: one note, and its own number of processes") {
  const Read r = read("{device: cpu, multi_gpu: DDP, num_gpus: 8, processes: 2}");
  CHECK(r.problems.empty());
  CHECK_THAT(r.notes, Catch::Contains("no effect"));
  CHECK(r.plan.cpu_processes == 2);
  CHECK(read("{device: cpu, multi_gpu: Off, num_gpus: 1}").notes.empty());
  CHECK(read("processes: 3").plan.cpu_processes == 3);
  CHECK_THAT(read("{device: '0,1', num_gpus: 4}").notes, Catch::Contains("device decides"));
}
