// loader_bench_tool VOC_FOLDER [--threads N] [--epochs N] [--batch N] [--side N]
// Loads a Pascal VOC folder through the YOLO-NAS recipe's transforms and prints one JSON line:
// images/s over the epochs after the first (which warms the file cache), stage times, memory.
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/paths.h"
#include "loader/loader.h"
#include "support/transform_tools.h"

namespace {

using namespace sgtrain;
using core::Tree;
using support::list_of;

core::TreePtr number(std::int64_t v) {
  return Tree::of(v);
}
core::TreePtr real(double v) {
  return Tree::of(v);
}

std::vector<std::pair<std::string, support::Params>> training_transforms(double side) {
  return {
      {"DetectionRandomAffine",
       {{"degrees", number(0)},
        {"translate", real(0.25)},
        {"scales", list_of({0.5, 1.5})},
        {"shear", real(0.0)},
        {"target_size", Tree::null()},
        {"filter_box_candidates", Tree::of(true)},
        {"wh_thr", number(2)},
        {"area_thr", real(0.1)},
        {"ar_thr", number(20)}}},
      {"DetectionRGB2BGR", {{"prob", real(0.5)}}},
      {"DetectionHSV",
       {{"prob", real(0.5)}, {"hgain", number(18)}, {"sgain", number(30)}, {"vgain", number(30)}}},
      {"DetectionHorizontalFlip", {{"prob", real(0.5)}}},
      {"DetectionMixup",
       {{"input_dim", Tree::null()},
        {"mixup_scale", list_of({0.5, 1.5})},
        {"prob", real(0.5)},
        {"flip_prob", real(0.5)}}},
      {"DetectionPaddedRescale",
       {{"input_dim", list_of({side, side})}, {"pad_value", number(114)}}},
      {"DetectionStandardize", {{"max_value", real(255.0)}}},
      {"DetectionTargetsFormatTransform", {{"output_format", Tree::of("LABEL_CXCYWH")}}}};
}

std::unique_ptr<data::Dataset> open_voc(const std::string& folder, double side) {
  const core::TreePtr tree = Tree::make_map();
  tree->set("data_dir", Tree::of(folder));
  tree->set("images_dir", Tree::of("JPEGImages"));
  tree->set("labels_dir", Tree::of("Annotations"));
  tree->set("input_dim", list_of({side, side}));
  const core::TreePtr classes = Tree::make_list();
  for (const char* name : {"RBC", "WBC", "Platelets"}) classes->list.push_back(Tree::of(name));
  tree->set("all_classes_list", classes);
  const auto problems = std::make_shared<core::Problems>();
  const auto maker = data::Dataset::registry().parse(
      {"PascalVOCFormatDetectionDataset", core::Node(tree, problems)});
  problems->throw_if_any("data set");
  const data::Paths paths;
  return maker(paths);
}

struct Options {
  std::string folder;
  int threads = 0, epochs = 6, batch = 16, side = 640;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string key = argv[i];
    if (key.rfind("--", 0) != 0) {
      o.folder = key;
      continue;
    }
    const int value = i + 1 < argc ? std::stoi(argv[++i]) : 0;
    if (key == "--threads") o.threads = value;
    if (key == "--epochs") o.epochs = value;
    if (key == "--batch") o.batch = value;
    if (key == "--side") o.side = value;
  }
  return o;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void run(const Options& o) {
  const auto dataset = open_voc(o.folder, o.side);
  const data::Pipeline pipeline(support::parse_transforms(training_transforms(o.side)),
                                data::Task::kDetection);
  loader::LoaderParams params;
  params.batch_size = o.batch;
  params.num_workers = o.threads;
  params.shuffle = true;
  loader::Loader loader(*dataset, pipeline, params, {.seed = 1, .shard = {}, .training = true});
  std::int64_t images = 0;
  double seconds = 0.0, cpu_before = 0.0;
  for (int epoch = 0; epoch <= o.epochs; ++epoch) {
    if (epoch == 1) cpu_before = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    loader.begin(epoch);
    std::int64_t count = 0;
    while (const auto batch = loader.next()) count += batch->size();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (epoch == 0) continue;
    images += count;
    seconds += took.count();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::json out{{"images_per_s", static_cast<double>(images) / seconds},
                           {"images", images},
                           {"cpu_s", cpu_seconds() - cpu_before},
                           {"threads", o.threads},
                           {"peak_mib", static_cast<double>(usage.ru_maxrss) / 1024.0},
                           {"stages", loader.stats().text()}};
  std::cout << out.dump() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.folder.empty())
      throw std::runtime_error("usage: loader_bench_tool VOC_FOLDER [--threads N]");
    run(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
