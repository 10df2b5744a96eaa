// The loader: same batches for any number of threads and processes, errors with names, flat memory.
#include "loader/loader.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "loader/normalise.h"
#include "support/transform_tools.h"

using namespace sgtrain;
using core::Tree;
using loader::Loader;
using loader::LoaderParams;
using loader::LoaderSetup;
using support::list_of;

namespace {

/// Pictures made from their index; some cannot be decoded.
class Pictures final : public data::Dataset {
 public:
  explicit Pictures(std::int64_t size, std::set<std::int64_t> bad = {},
                    std::chrono::milliseconds delay = {})
      : size_(size), bad_(std::move(bad)), delay_(delay) {
    for (std::int64_t i = 0; i < size; ++i) {
      const auto f = static_cast<float>(i % 7);
      boxes_.push_back({f, f, 20 + f, 15 + f, static_cast<std::int32_t>(i % 3)});
    }
  }
  data::Task task() const override { return data::Task::kDetection; }
  std::int64_t size() const override { return size_; }
  data::Annotation annotation(std::int64_t index) const override {
    return {.label = -1,
            .boxes = {&boxes_[static_cast<std::size_t>(index)], index % 5 == 4 ? 0U : 1U},
            .size = {},
            .image_id = index};
  }
  data::Sample load(std::int64_t index) const override {
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    ++loads;
    if (bad_.count(index) > 0) throw core::Error("cannot decode the image", image_path(index));
    data::Sample sample;
    sample.image = support::noise_image(40 + static_cast<int>(index % 3), 50,
                                        static_cast<std::uint64_t>(index));
    const auto boxes = annotation(index).boxes;
    sample.boxes.assign(boxes.begin(), boxes.end());
    sample.index = index;
    sample.original_size = sample.image.size();
    sample.name = image_path(index);
    return sample;
  }
  std::string image_path(std::int64_t index) const override {
    return "picture_" + std::to_string(index) + ".jpg";
  }
  const std::vector<std::string>& class_names() const override { return names_; }
  const data::Report& report() const override { return report_; }

  mutable std::atomic<int> loads{0};

 private:
  std::int64_t size_;
  std::set<std::int64_t> bad_;
  std::chrono::milliseconds delay_;
  std::vector<data::Box> boxes_;
  std::vector<std::string> names_{"a", "b", "c"};
  data::Report report_;
};

data::Pipeline augmenting() {
  return support::make_pipeline(
      {{"DetectionRandomAffine",
        {{"degrees", Tree::of(std::int64_t{5})},
         {"scales", list_of({0.5, 1.5})},
         {"target_size", Tree::null()}}},
       {"DetectionHSV",
        {{"prob", Tree::of(0.5)}, {"hgain", Tree::of(18.0)}, {"sgain", Tree::of(30.0)}}},
       {"DetectionHorizontalFlip", {{"prob", Tree::of(0.5)}}},
       {"DetectionMixup", {{"prob", Tree::of(0.5)}, {"mixup_scale", list_of({0.5, 1.5})}}},
       {"DetectionPaddedRescale", {{"input_dim", list_of({48, 64})}}},
       {"DetectionStandardize", {}}},
      true);
}

LoaderParams params(std::int64_t batch, int threads, bool shuffle = true) {
  LoaderParams p;
  p.batch_size = batch;
  p.num_workers = threads;
  p.shuffle = shuffle;
  return p;
}

/// Everything that an image brings: pixels and target rows without the index in the batch.
using Content = std::pair<std::string, std::vector<float>>;

void add_contents(const tensor::Batch& batch, std::vector<std::pair<std::int64_t, Content>>& out) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const at::Tensor image = batch.images[i].contiguous();
    Content content;
    content.first.assign(reinterpret_cast<const char*>(image.const_data_ptr<std::uint8_t>()),
                         static_cast<std::size_t>(image.numel()));
    const at::Tensor& rows = batch.targets.boxes;
    for (std::int64_t r = 0; r < rows.size(0); ++r) {
      if (rows[r][0].item<float>() != static_cast<float>(i)) continue;
      for (std::int64_t c = 1; c < 6; ++c) content.second.push_back(rows[r][c].item<float>());
    }
    out.emplace_back(batch.indices[static_cast<std::size_t>(i)], std::move(content));
  }
}

std::vector<std::pair<std::int64_t, Content>> epoch_of(Loader& loader, std::int64_t epoch,
                                                       std::int64_t start = 0) {
  std::vector<std::pair<std::int64_t, Content>> out;
  loader.begin(epoch, start);
  while (auto batch = loader.next()) add_contents(*batch, out);
  return out;
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

/// Warnings of the library stay out of the test's output.
struct Quiet {
  Quiet() : before(core::log::options()) {
    core::log::Options options = before;
    options.level = core::log::Level::kSilent;
    core::log::configure(options);
  }
  ~Quiet() { core::log::configure(before); }
  core::log::Options before;
};

}  // namespace

TEST_CASE("batches are the same for 0, 1 and 4 threads", "[loader]") {
  const Pictures dataset(23);
  const data::Pipeline pipeline = augmenting();
  std::vector<std::pair<std::int64_t, Content>> expected;
  for (const int threads : {0, 1, 4}) {
    Loader loader(dataset, pipeline, params(4, threads),
                  {.seed = 5, .shard = {}, .training = true});
    CHECK(loader.batches() == 6);
    for (int pass = 0; pass < 2; ++pass) {
      const auto contents = epoch_of(loader, 3);
      REQUIRE(contents.size() == 23);
      if (expected.empty()) expected = contents;
      CHECK(contents == expected);
    }
    CHECK(epoch_of(loader, 4) != expected);  // another epoch, other images
  }
}

TEST_CASE("images are the same for 1, 2 and 3 shards", "[loader]") {
  const Pictures dataset(24);
  const data::Pipeline pipeline = augmenting();
  std::map<std::int64_t, Content> expected;
  for (const int count : {1, 2, 3}) {
    std::map<std::int64_t, Content> all;
    for (int rank = 0; rank < count; ++rank) {
      Loader loader(dataset, pipeline, params(4, 2),
                    {.seed = 5, .shard = {rank, count}, .training = true});
      for (auto& [index, content] : epoch_of(loader, 0)) {
        CHECK(all.emplace(index, std::move(content)).second);
      }
    }
    CHECK(all.size() == 24);
    if (expected.empty()) expected = all;
    CHECK(all == expected);
  }
}

TEST_CASE("dropping the rest, an epoch has the same global batches on 1, 2 and 3 shards",
          "[loader]") {
  const Pictures dataset(23);
  const data::Pipeline pipeline = augmenting();
  std::vector<std::set<std::int64_t>> expected;
  for (const int count : {1, 2, 3}) {
    std::vector<std::set<std::int64_t>> batches(3);  // of 6 images, over all shards
    for (int rank = 0; rank < count; ++rank) {
      LoaderParams p = params(6 / count, 0);
      p.drop_last = true;
      Loader loader(dataset, pipeline, p, {.seed = 5, .shard = {rank, count}, .training = true});
      CHECK(loader.batches() == 3);
      loader.begin(0);
      for (auto& indices : batches) {
        const auto batch = loader.next();
        REQUIRE(batch);
        indices.insert(batch->indices.begin(), batch->indices.end());
      }
      CHECK_FALSE(loader.next());
    }
    if (expected.empty()) expected = batches;
    CHECK(batches == expected);
  }
}

TEST_CASE("an epoch resumed in the middle continues with the same batches", "[loader]") {
  const Pictures dataset(20);
  const data::Pipeline pipeline = augmenting();
  Loader loader(dataset, pipeline, params(4, 2), {.seed = 1, .shard = {}, .training = true});
  const auto whole = epoch_of(loader, 2);
  const auto rest = epoch_of(loader, 2, 3);
  REQUIRE(rest.size() == 8);
  CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 12));
  CHECK(loader.position() == 4);
  CHECK(epoch_of(loader, 2, 99).empty());
  // An epoch may be left unfinished.
  loader.begin(7);
  REQUIRE(loader.next());
  CHECK(epoch_of(loader, 2) == whole);
}

TEST_CASE("validation keeps order, covers all images, and gives fixed shapes", "[loader]") {
  const Pictures dataset(10);
  const data::Pipeline pipeline = support::make_pipeline(
      {{"DetectionRGB2BGR", {{"prob", Tree::of(1.0)}}},
       {"DetectionPadToSize",
        {{"output_size", list_of({64, 64})}, {"pad_value", Tree::of(std::int64_t{114})}}},
       {"DetectionStandardize", {}},
       {"DetectionImagePermute", {}}},
      true);
  Loader loader(dataset, pipeline, params(3, 2, false), {});
  CHECK(loader.batches() == 4);
  loader.begin(0);
  std::int64_t seen = 0;
  while (auto batch = loader.next()) {
    CHECK(batch->images.sizes().slice(1) == at::IntArrayRef({64, 64, 3}));
    CHECK(batch->images.is_contiguous());
    CHECK(batch->targets.crowd_boxes.sizes() == at::IntArrayRef({0, 6}));
    for (const std::int64_t index : batch->indices) CHECK(index == seen++);
  }
  CHECK(seen == 10);
}

TEST_CASE("images of different sizes cannot be one batch; the error names them", "[loader]") {
  const Pictures dataset(6);
  const data::Pipeline pipeline = support::make_pipeline({});
  for (const int threads : {0, 2}) {
    Loader loader(dataset, pipeline, params(3, threads, false), {});
    loader.begin(0);
    CHECK_THROWS_WITH(loader.next(), Catch::Contains("picture_0.jpg 50x40") &&
                                         Catch::Contains("picture_1.jpg 50x41"));
    CHECK(!loader.next());  // the epoch is over
    Loader single(dataset, pipeline, params(1, threads, false), {});
    CHECK(epoch_of(single, 0).size() == 6);
  }
}

TEST_CASE("unreadable images: replaced in training, left out in validation, or fatal", "[loader]") {
  const Quiet quiet;
  const Pictures dataset(12, {3, 4, 11});
  const data::Pipeline pipeline = augmenting();
  for (const int threads : {0, 3}) {
    {
      Loader loader(dataset, pipeline, params(4, threads, false),
                    {.seed = 0, .shard = {}, .training = true});
      const auto contents = epoch_of(loader, 0);
      REQUIRE(contents.size() == 12);
      CHECK(contents[3].first == 5);   // the next one that can be read
      CHECK(contents[11].first == 0);  // after the last comes the first
      CHECK(loader.stats().skipped >= 3);
      CHECK(loader.stats().text().find("unreadable") != std::string::npos);
    }
    {
      Loader loader(dataset, pipeline, params(4, threads, false), {});
      std::set<std::int64_t> seen;
      for (const auto& [index, content] : epoch_of(loader, 0)) CHECK(seen.insert(index).second);
      CHECK(seen == std::set<std::int64_t>{0, 1, 2, 5, 6, 7, 8, 9, 10});
    }
    {
      LoaderParams strict = params(4, threads, false);
      strict.bad_images = loader::BadImages::kError;
      Loader loader(dataset, pipeline, strict, {});
      loader.begin(0);
      CHECK_THROWS_WITH(loader.next(), Catch::Contains("picture_3.jpg"));
    }
  }
  const Pictures broken(5, {0, 1, 2, 3, 4});
  Loader loader(broken, pipeline, params(4, 2), {.seed = 0, .shard = {}, .training = true});
  loader.begin(0);
  CHECK_THROWS_WITH(loader.next(), Catch::Contains("in a row"));
}

TEST_CASE("a transform's failure surfaces with the image's name", "[loader]") {
  const Pictures dataset(8);
  const data::Pipeline pipeline =
      support::make_pipeline({{"RandomCrop", {{"size", Tree::of(std::int64_t{64})}}}});
  Loader loader(dataset, pipeline, params(4, 2, false), {});
  loader.begin(0);
  CHECK_THROWS_WITH(loader.next(),
                    Catch::Contains("picture_0.jpg") && Catch::Contains("RandomCrop"));
}

TEST_CASE("an epoch without batches is refused; a last batch of one is merged", "[loader]") {
  const Pictures dataset(5);
  const data::Pipeline pipeline = augmenting();
  LoaderParams p = params(16, 0);
  p.drop_last = true;
  p.where = "recipe.yaml:12";
  CHECK_THROWS_WITH(Loader(dataset, pipeline, p, {.seed = 0, .shard = {}, .training = true}),
                    Catch::Contains("0 batches: 5 images, batch 16, drop_last") &&
                        Catch::Contains("recipe.yaml:12"));
  p.min_samples = 16;
  Loader repeated(dataset, pipeline, p, {.seed = 0, .shard = {}, .training = true});
  const auto contents = epoch_of(repeated, 0);
  CHECK(contents.size() == 16);
  std::set<std::string> different;
  for (const auto& [index, content] : contents) different.insert(content.first);
  CHECK(different.size() == 16);  // repeats are augmented differently

  const Pictures nine(9);
  Loader loader(nine, pipeline, params(4, 2), {.seed = 0, .shard = {}, .training = true});
  loader.begin(0);
  CHECK(loader.next()->size() == 4);
  CHECK(loader.next()->size() == 5);
  CHECK(!loader.next());
}

TEST_CASE("memory of batches is used again", "[loader]") {
  const Pictures dataset(32);
  const data::Pipeline pipeline = augmenting();
  Loader loader(dataset, pipeline, params(4, 2), {.seed = 0, .shard = {}, .training = true});
  std::set<const void*> blocks;
  for (int epoch = 0; epoch < 4; ++epoch) {
    loader.begin(epoch);
    while (auto batch = loader.next()) blocks.insert(batch->images.const_data_ptr());
  }
  CHECK(blocks.size() <= 6);
  // A batch that is kept stays as it is.
  loader.begin(0);
  const auto kept = *loader.next();
  const at::Tensor copy = kept.images.clone();
  while (loader.next()) {
  }
  CHECK(at::equal(kept.images, copy));
}

TEST_CASE("memory stays flat over 50 epochs", "[loader]") {
  const Pictures dataset(64);
  const data::Pipeline pipeline = augmenting();
  Loader loader(dataset, pipeline, params(8, 3), {.seed = 0, .shard = {}, .training = true});
  std::int64_t base = 0;
  for (int epoch = 0; epoch < 50; ++epoch) {
    loader.begin(epoch);
    while (loader.next()) {
    }
    if (epoch == 5) base = resident_kib();
  }
  REQUIRE(base > 0);
  CHECK(resident_kib() - base < std::max<std::int64_t>(base / 50, 4096));
}

TEST_CASE("a loader in full flight ends quickly", "[loader]") {
  const Pictures dataset(1000, {}, std::chrono::milliseconds(20));
  const data::Pipeline pipeline = augmenting();
  const auto start = std::chrono::steady_clock::now();
  {
    Loader loader(dataset, pipeline, params(50, 4), {.seed = 0, .shard = {}, .training = true});
    loader.begin(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

TEST_CASE("prefetch is bounded", "[loader]") {
  const Pictures dataset(400);
  const data::Pipeline pipeline = augmenting();
  Loader loader(dataset, pipeline, params(10, 2), {.seed = 0, .shard = {}, .training = true});
  loader.begin(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Two batches ahead, mixup's second images included.
  CHECK(dataset.loads.load() <= 40);
}

TEST_CASE("the slow stage is named", "[loader]") {
  const Pictures dataset(12, {}, std::chrono::milliseconds(15));
  const data::Pipeline pipeline = augmenting();
  Loader loader(dataset, pipeline, params(4, 1), {.seed = 0, .shard = {}, .training = true});
  loader.begin(0);
  while (loader.next()) {
  }
  const std::string text = loader.stats().text();
  INFO(text);
  CHECK(text.find("decode is the limit") != std::string::npos);
  CHECK(text.find("read") != std::string::npos);
  CHECK(loader.stats().images == 12);
}

TEST_CASE("keys of the reference's loaders are read", "[loader]") {
  const core::TreePtr tree = Tree::make_map();
  for (const auto& [key, value] : std::vector<std::pair<std::string, core::TreePtr>>{
           {"batch_size", Tree::of(std::int64_t{8})},
           {"num_workers", Tree::of(std::int64_t{3})},
           {"shuffle", Tree::of(true)},
           {"drop_last", Tree::of(true)},
           {"pin_memory", Tree::of(true)},
           {"persistent_workers", Tree::of(true)},
           {"worker_init_fn", Tree::null()},
           {"collate_fn", Tree::of("DetectionCollateFN")}}) {
    tree->set(key, value);
  }
  const core::TreePtr sampler = Tree::make_map();
  sampler->set("RepeatAugSampler", Tree::make_map());
  tree->set("sampler", sampler);
  const auto problems = std::make_shared<core::Problems>();
  core::Node node(tree, problems);
  const LoaderParams p = LoaderParams::from(node);
  node.report_unread();
  problems->throw_if_any("loader");
  CHECK(p.batch_size == 8);
  CHECK(p.num_workers == 3);
  CHECK(p.sampler != nullptr);
  CHECK(p.batch_transforms.empty());

  const core::TreePtr wrong = Tree::make_map();
  wrong->set("batch_size", Tree::of(std::int64_t{0}));
  wrong->set("batchsize", Tree::of(std::int64_t{4}));
  wrong->set("collate_fn", Tree::of("CollateMixupp"));
  const auto found = std::make_shared<core::Problems>();
  core::Node bad(wrong, found);
  LoaderParams::from(bad);
  bad.report_unread();
  CHECK_THROWS_WITH(found->throw_if_any("loader"), Catch::Contains("batch_size") &&
                                                       Catch::Contains("did you mean") &&
                                                       Catch::Contains("CollateMixup"));
}

TEST_CASE("normalisation on the device equals the reference's arithmetic", "[loader]") {
  data::Normalisation n;
  n.divide(255.0);
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
  n.normalise(mean, std);
  for (const std::int64_t width : {1, 7, 64}) {
    const at::Tensor images = at::randint(0, 256, {2, 5, width, 3}, at::kByte);
    const at::Tensor out = loader::normalise(images, n);
    CHECK(out.sizes() == at::IntArrayRef({2, 3, 5, width}));
    CHECK(out.is_contiguous(at::MemoryFormat::ChannelsLast));
    const at::Tensor expected =
        ((images.to(at::kDouble) / 255.0 - at::tensor(at::ArrayRef<double>(mean))) /
         at::tensor(at::ArrayRef<double>(std)))
            .permute({0, 3, 1, 2});
    CHECK((out.to(at::kDouble) - expected).abs().max().item<double>() < 1e-6);
  }
  data::Normalisation unit;
  unit.divide(255.0);
  const at::Tensor ramp = at::arange(0, 255, at::kByte).view({1, 1, 85, 3});
  CHECK(at::equal(loader::normalise(ramp, unit),
                  (ramp.to(at::kFloat) / 255.0F).permute({0, 3, 1, 2})));
}
