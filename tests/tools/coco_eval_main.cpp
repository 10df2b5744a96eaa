// coco_eval_tool TRUTH.json RESULTS.json [--threads N] [--repeat N]: scores a results file and
// prints one JSON object: the 12 numbers, AP for each category, times in seconds, peak memory.
// For the tests with peers and the benchmarks.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>

#include "core/error.h"
#include "metrics/coco/coco_eval.h"
#include "metrics/coco/coco_json.h"

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(int argc, char** argv) {
  using namespace sgtrain::metrics;
  if (argc < 3)
    throw sgtrain::core::InputError(
        "usage: coco_eval_tool TRUTH.json RESULTS.json [--threads N] [--repeat N]");
  CocoParams params;
  int repeat = 1;
  for (int i = 3; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--threads") params.threads = std::atoi(argv[i + 1]);
    if (std::string(argv[i]) == "--repeat") repeat = std::max(1, std::atoi(argv[i + 1]));
  }
  const auto start = std::chrono::steady_clock::now();
  auto truth_reader = std::async(std::launch::async, read_coco_ground_truth, argv[1]);
  const std::vector<CocoDetection> detections = read_coco_results(argv[2]);
  const CocoGroundTruth truth = truth_reader.get();
  const double reading = seconds_since(start);
  CocoResult result;
  double scoring = 1e30;
  for (int i = 0; i < repeat; ++i) {
    const auto from = std::chrono::steady_clock::now();
    result = evaluate_coco(truth, detections, params);
    scoring = std::min(scoring, seconds_since(from));
  }
  std::printf("{\"stats\": [");
  for (std::size_t i = 0; i < result.stats.size(); ++i) {
    std::printf("%s%.17g", i ? ", " : "", result.stats[i]);
  }
  std::printf("], \"category_ap\": [");
  for (std::size_t k = 0; k < result.categories.size(); ++k) {
    std::printf("%s%.17g", k ? ", " : "", result.average_precision(static_cast<int>(k)));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("], \"reading_s\": %.4f, \"scoring_s\": %.4f, \"peak_mib\": %.1f}\n", reading,
              scoring, static_cast<double>(usage.ru_maxrss) / 1024.0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "coco_eval_tool: %s\n", error.what());
    return 2;
  }
}
