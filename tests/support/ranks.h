// Runs a hidden test case ("[.]") of this test executable as several ranks over Gloo.
//
//   TEST_CASE("sum over ranks", "[.][rank]") { auto comm = support::join(); … CHECK(…); }
//   TEST_CASE("all-reduce") { CHECK(support::run_ranks(4, "sum over ranks").exit_code == 0); }
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/process.h"
#include "dist/factory.h"
#include "dist/launcher.h"

namespace sgtrain::support {

/// In the hidden test case: the communicator of this rank. One thread per rank.
inline std::unique_ptr<dist::Communicator> join(
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return dist::make_communicator(dist::World::current(), at::Device(at::kCPU),
                                 {.timeout = timeout});
}

/// In the test: runs the hidden case `test` in `ranks` processes; their exit code (0: every rank's
/// checks held). Logs of the failing rank are printed by the launcher.
inline int run_ranks(int ranks, const std::string& test,
                     std::vector<std::pair<std::string, std::string>> env = {},
                     const std::filesystem::path& log_dir = {}) {
  env.emplace_back("OMP_NUM_THREADS", "1");
  return dist::launch({.processes = ranks,
                       .argv = {core::executable_path().string(), "--exact", test},
                       .env = std::move(env),
                       .log_dir = log_dir,
                       .fail_grace = std::chrono::milliseconds(500)});
}

}  // namespace sgtrain::support
