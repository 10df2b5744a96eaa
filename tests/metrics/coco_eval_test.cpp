#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <sstream>

#include <nlohmann/json.hpp>

#include "metrics/coco/coco_eval.h"
#include "metrics/coco/coco_json.h"
#include "support/temp_dir.h"

using namespace sgtrain::metrics;
namespace fs = std::filesystem;

namespace {

struct Data {
  CocoGroundTruth truth;
  std::vector<CocoDetection> detections;
};

Data random_scene(int images, int objects, int detections, int categories, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> place(0, 500), size(5, 120), unit(0, 1);
  Data data;
  for (int k = 0; k < categories; ++k)
    data.truth.categories.push_back({k + 1, "c" + std::to_string(k)});
  for (int i = 0; i < images; ++i) {
    data.truth.images.push_back(i);
    const std::size_t first = data.truth.objects.size();
    for (int j = 0; j < objects; ++j) {
      CocoObject o{
          i,          static_cast<std::int64_t>(1 + rng() % static_cast<unsigned>(categories)),
          place(rng), place(rng),
          size(rng),  size(rng),
          0,          unit(rng) < 0.03};
      o.area = o.w * o.h;
      data.truth.objects.push_back(o);
    }
    for (int j = 0; j < detections; ++j) {
      const CocoObject& o = data.truth.objects[first + rng() % static_cast<unsigned>(objects)];
      const double noise = unit(rng) * 0.3;
      data.detections.push_back(
          {i, o.category, o.x + noise * o.w * (unit(rng) - 0.5),
           o.y + noise * o.h * (unit(rng) - 0.5), o.w * (1 + noise * (unit(rng) - 0.5)),
           o.h * (1 + noise * (unit(rng) - 0.5)), std::round(unit(rng) * 1000) / 1000});
    }
  }
  return data;
}

Data one_image(std::vector<CocoObject> objects, std::vector<CocoDetection> detections) {
  for (CocoObject& o : objects) o.area = o.w * o.h;
  return {{{0}, {{1, "a"}, {2, "b"}}, std::move(objects)}, std::move(detections)};
}

fs::path write(const fs::path& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

}  // namespace

TEST_CASE("COCO scores of cases that can be worked out by hand", "[metrics]") {
  // Two objects, the second one found with IoU 0.8: right at 7 of 10 thresholds.
  const Data data = one_image(
      {{0, 1, 0, 0, 100, 100, 0, false}, {0, 1, 200, 0, 100, 100, 0, false}},
      {{0, 1, 0, 0, 100, 100, 0.9}, {0, 1, 200, 0, 100, 80, 0.8}, {0, 1, 400, 0, 10, 10, 0.7}});
  const CocoResult r = evaluate_coco(data.truth, data.detections);
  CHECK(r.stats[1] == Approx(1.0));
  CHECK(r.stats[0] == Approx((7 + 3 * 51 / 101.0) / 10));
  CHECK(r.stats[5] == Approx(r.stats[0]));  // both are large
  CHECK(r.stats[3] == -1.0);                // nothing small to find
  CHECK(r.stats[6] == Approx(0.5));         // one detection an image
  CHECK(r.stats[8] == Approx(0.85));
  CHECK(r.average_precision(0) == Approx(r.stats[0]));
  CHECK(r.average_precision(1) == -1.0);  // no object of this category
  CHECK(r.average_precision(0, 0.75) == Approx(1.0));
}

TEST_CASE("detections in a crowd are neither right nor wrong", "[metrics]") {
  const Data data = one_image(
      {{0, 1, 0, 0, 50, 50, 0, false}, {0, 1, 100, 100, 200, 200, 0, true}},
      {{0, 1, 110, 110, 40, 40, 0.9}, {0, 1, 160, 160, 40, 40, 0.8}, {0, 1, 0, 0, 50, 50, 0.5}});
  CHECK(evaluate_coco(data.truth, data.detections).stats[0] == Approx(1.0));
}

TEST_CASE("no detections, no objects, no images", "[metrics]") {
  const Data data = one_image({{0, 1, 0, 0, 50, 50, 0, false}}, {});
  CHECK(evaluate_coco(data.truth, data.detections).stats[0] == 0.0);
  CHECK(evaluate_coco(one_image({}, {{0, 1, 0, 0, 5, 5, 0.5}}).truth, data.detections).stats[0] ==
        -1.0);
  CHECK_THROWS_WITH(evaluate_coco({}, {}), Catch::Contains("no image"));
}

TEST_CASE("COCO scoring does not depend on the number of threads", "[metrics]") {
  const Data data = random_scene(60, 12, 40, 3, 7);
  CocoParams one;
  one.threads = 1;
  CocoParams four;
  four.threads = 4;
  const CocoResult a = evaluate_coco(data.truth, data.detections, one),
                   b = evaluate_coco(data.truth, data.detections, four);
  CHECK(a.precision == b.precision);
  CHECK(a.recall == b.recall);
  CHECK(a.scores == b.scores);
  CHECK(a.stats[0] > 0.05);
  CHECK(a.stats[0] < 0.95);
}

TEST_CASE("COCO scoring refuses what it cannot score", "[metrics]") {
  Data data = random_scene(2, 3, 4, 2, 1);
  data.detections[1].image = 77;
  CHECK_THROWS_WITH(evaluate_coco(data.truth, data.detections), Catch::Contains("77"));
  data.detections[1].image = 0;
  data.detections[1].score = std::nan("");
  CHECK_THROWS_WITH(evaluate_coco(data.truth, data.detections), Catch::Contains("finite"));
  data.detections[1].score = 0.5;
  data.detections[1].category = 99;  // a category that the ground truth lacks: ignored
  CHECK_NOTHROW(evaluate_coco(data.truth, data.detections));
  CocoParams params;
  params.max_detections = {10, 1};
  CHECK_THROWS_WITH(evaluate_coco(data.truth, data.detections, params),
                    Catch::Contains("increasing"));
}

TEST_CASE("a dense image is scored in seconds", "[metrics]") {
  const Data data = random_scene(1, 3000, 5000, 1, 3);
  CocoParams params;
  params.max_detections = {1, 10, 5000};
  const auto start = std::chrono::steady_clock::now();
  const CocoResult r = evaluate_coco(data.truth, data.detections, params);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(r.stats[0] > 0);
}

TEST_CASE("COCO JSON files are read", "[metrics]") {
  const sgtrain::support::TempDir temp;
  const fs::path folder = temp.path();
  const auto truth = write(folder, "truth.json", R"({"info": {"a": [1, {"b": null}]},
    "annotations": [{"id": 1, "image_id": 5, "category_id": 2, "bbox": [1, 2.5, 3e1, 4], "segmentation": [[1, 2, 3]], "area": 7},
                    {"id": 2, "image_id": 5.0, "category_id": 2, "bbox": [0, 0, 2, 3], "iscrowd": 1},
                    {"id": 3, "image_id": 6, "category_id": 2, "bbox": [0, 0, 2, 3], "iscrowd": false, "area": null}],
    "categories": [{"name": "gl\u00e4s", "id": 2, "supercategory": "x"}], "images": [{"id": 5}, {"file_name": "é.jpg", "id": 6}]})");
  const CocoGroundTruth read = read_coco_ground_truth(truth);
  REQUIRE(read.objects.size() == 3);
  CHECK(read.images == std::vector<std::int64_t>{5, 6});
  CHECK(read.categories.at(0).name == "gläs");
  CHECK(read.objects[0].w == 30.0);
  CHECK(read.objects[0].area == 7.0);
  CHECK(!read.objects[0].crowd);
  CHECK(read.objects[1].crowd);
  CHECK(read.objects[1].area == 6.0);
  CHECK(read.objects[2].area == 6.0);
  const auto results = write(
      folder, "results.json",
      R"([{"image_id": 6, "category_id": 2, "bbox": [0, 0, 2, 3], "score": 0.25, "note": "x"}])");
  const auto detections = read_coco_results(results);
  REQUIRE(detections.size() == 1);
  CHECK(detections[0].score == 0.25);
  CHECK(read_coco_results(write(folder, "empty.json", "[]")).empty());
}

TEST_CASE("errors in COCO JSON name file and entry", "[metrics]") {
  const sgtrain::support::TempDir temp;
  const auto fails = [&](const std::string& text) {
    try {
      read_coco_results(write(temp.path(), "r.json", text));
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const std::string good =
      R"({"image_id": 6, "category_id": 2, "bbox": [0, 0, 2, 3], "score": 0.25})";
  CHECK_THAT(
      fails("[" + good + R"(, {"image_id": 6, "category_id": 2, "bbox": [0, 0, 2], "score": 1}])"),
      Catch::Contains("r.json") && Catch::Contains("[1]") && Catch::Contains("4 numbers"));
  CHECK_THAT(fails("[" + good + R"(, {"image_id": 6, "category_id": 2, "bbox": [0, 0, 2, 3]}])"),
             Catch::Contains("'score'"));
  CHECK_THAT(fails(R"([{"image_id": "6", "category_id": 2, "bbox": [0, 0, 2, 3], "score": 1}])"),
             Catch::Contains("integer"));
  CHECK_THAT(fails(R"([{"image_id": 6.5, "category_id": 2, "bbox": [0, 0, 2, 3], "score": 1}])"),
             Catch::Contains("integer"));
  CHECK_THAT(fails(R"([{"image_id": 6, "category_id": 2, "bbox": [0, 0, 2, NaN], "score": 1}])"),
             Catch::Contains("r.json"));
  CHECK_THAT(fails("{}"), Catch::Contains("must be a list"));
  CHECK_THAT(fails("[" + good), Catch::Contains("r.json"));
  CHECK_THAT(fails("[" + good + "] x"), Catch::Contains("r.json"));
  CHECK_THAT(fails(""), Catch::Contains("r.json"));
  CHECK_THAT(fails("[3]"), Catch::Contains("object"));
  CHECK_THROWS_WITH(read_coco_results(temp.path() / "absent.json"), Catch::Contains("absent.json"));
  CHECK_THROWS_WITH(
      read_coco_ground_truth(write(temp.path(), "t.json", R"({"images": [], "categories": []})")),
      Catch::Contains("annotations"));
}

TEST_CASE("scores of really trained predictions equal pycocotools'", "[metrics][data]") {
  const fs::path shared = SGTRAIN_SHARED_DIR, trained = shared / "golden/trained",
                 bccd = shared / "data/bccd";
  if (!fs::exists(trained / "metrics.json") || !fs::exists(bccd)) {
    std::puts("skipped: no shared data folder");
    return;
  }
  const auto parse = [](const fs::path& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  };
  const auto expected = parse(trained / "metrics.json");
  Data data;
  const std::vector<std::string> names = {"RBC", "WBC", "Platelets"};
  for (int k = 0; k < 3; ++k)
    data.truth.categories.push_back({k, names[static_cast<std::size_t>(k)]});
  std::map<std::string, std::int64_t> image_ids;
  std::ifstream list(bccd / "ImageSets/Main/val.txt");
  const std::regex object(
      R"(<object>[\s\S]*?<name>(\w+)</name>[\s\S]*?<xmin>(-?\d+)</xmin>\s*<ymin>(-?\d+)</ymin>\s*<xmax>(-?\d+)</xmax>\s*<ymax>(-?\d+)</ymax>)");
  for (std::string stem; list >> stem;) {
    const auto id = static_cast<std::int64_t>(image_ids.size());
    image_ids[stem] = id;
    data.truth.images.push_back(id);
    std::ifstream file(bccd / "Annotations" / (stem + ".xml"));
    std::stringstream text;
    text << file.rdbuf();
    const std::string xml = text.str();
    for (std::sregex_iterator it(xml.begin(), xml.end(), object), end; it != end; ++it) {
      const double x1 = std::stod((*it)[2]), y1 = std::stod((*it)[3]), x2 = std::stod((*it)[4]),
                   y2 = std::stod((*it)[5]);
      if (x2 <= x1 || y2 <= y1) continue;
      const auto category = std::find(names.begin(), names.end(), (*it)[1].str()) - names.begin();
      data.truth.objects.push_back(
          {id, category, x1, y1, x2 - x1, y2 - y1, (x2 - x1) * (y2 - y1), false});
    }
  }
  for (const auto& row : parse(trained / "val_predictions_conf001.json")) {
    const auto& box = row["bbox"];
    data.detections.push_back({image_ids.at(row["image"]), row["category_id"], box[0], box[1],
                               box[2], box[3], row["score"]});
  }
  CHECK(data.truth.images.size() == expected["val_images"].get<std::size_t>());
  CHECK(data.truth.objects.size() == expected["gt"].get<std::size_t>());
  CHECK(data.detections.size() == expected["detections"].get<std::size_t>());
  const CocoResult r = evaluate_coco(data.truth, data.detections);
  for (std::size_t i = 0; i < 12; ++i)
    CHECK(r.stats[i] == Approx(expected["stats"][i].get<double>()).margin(1e-4));
  for (int k = 0; k < 3; ++k) {
    CHECK(r.average_precision(k, 0.5) ==
          Approx(expected["ap50_per_class"][names[static_cast<std::size_t>(k)]].get<double>())
              .margin(1e-4));
  }
}
