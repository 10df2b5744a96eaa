#include "loggers/results.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/temp_dir.h"

using namespace sgtrain;

namespace {
std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}
}  // namespace

TEST_CASE("results.csv grows by rows and by columns") {
  const support::TempDir dir;
  const auto file = dir.path() / "results.csv";
  {
    loggers::ResultsCsv csv(file);
    csv.add_row(0, {{"loss", 0.1}, {"acc", 1.0 / 3.0}});
    csv.add_row(1, {{"loss", std::nan("")}});
    csv.add_row(2, {{"acc", 0.5}, {"a,b", 2}});
  }
  CHECK(slurp(file) == "epoch,loss,acc,\"a,b\"\n0,0.1,0.3333333333333333,\n1,nan,,\n2,,0.5,2\n");

  // A resumed run drops what it writes again, and a torn last line.
  std::ofstream(file, std::ios::app) << "3,0.";
  loggers::ResultsCsv csv(file);
  csv.add_row(2, {{"loss", 0.25}});
  csv.add_row(3, {{"loss", 0.125}});
  CHECK(slurp(file) ==
        "epoch,loss,acc,\"a,b\"\n0,0.1,0.3333333333333333,\n1,nan,,\n2,0.25,,\n3,0.125,,\n");
}

TEST_CASE("a torn last line is gone before a row is appended") {
  const support::TempDir dir;
  const auto file = dir.path() / "results.csv";
  loggers::ResultsCsv(file).add_row(0, {{"loss", 1}});
  std::ofstream(file, std::ios::app) << "1,0.";
  loggers::ResultsCsv(file).add_row(1, {{"loss", 0.5}});
  CHECK(slurp(file) == "epoch,loss\n0,1\n1,0.5\n");
}

TEST_CASE("a foreign file is not overwritten") {
  const support::TempDir dir;
  const auto file = dir.path() / "results.csv";
  std::ofstream(file) << "name,age\nx,1\n";
  CHECK_THROWS_AS(loggers::ResultsCsv(file), core::Error);
}

TEST_CASE("metrics.json") {
  const support::TempDir dir;
  const auto file = dir.path() / "metrics.json";
  loggers::write_metrics_json(file, {.epoch = 3,
                                     .metrics = {{"valid_map@0.50", 0.75}},
                                     .watched = "mAP@0.50",
                                     .best_epoch = 2,
                                     .best_value = 0.8,
                                     .extra = {{"checkpoint", "ckpt_best.pth"}}});
  const auto json = nlohmann::json::parse(slurp(file));
  CHECK(json["metrics"]["valid_map@0.50"] == 0.75);
  CHECK(json["best"]["value"] == 0.8);
  CHECK(json["best"]["epoch"] == 2);
  CHECK(json["checkpoint"] == "ckpt_best.pth");
}
