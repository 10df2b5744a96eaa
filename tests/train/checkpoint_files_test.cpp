// Which files a run folder holds after each epoch, and the writing thread.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_writer.h"

using namespace sgtrain;
namespace fs = std::filesystem;
using tensor::Value;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ckpt_files" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::set<std::string> epochs() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("ckpt_epoch_")) out.insert(name);
    }
    return out;
  }
};

Value content(int epoch) {
  tensor::Checkpoint checkpoint;
  checkpoint.net = {{"w", at::full({4}, epoch * 1.0)}};
  checkpoint.epoch = epoch;
  return checkpoint.to_value();
}

/// A run of 20 epochs whose watched value is best in epochs 3 and 7.
void write_run(const Folder& folder, const train::TrainingParams& params) {
  train::CheckpointFiles files(folder.path, params);
  train::TrainState state;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const double value = epoch == 3 ? 0.9 : epoch == 7 ? 0.8 : 0.01 * epoch;
    state.epoch = epoch + 1;
    const auto plan = train::plan_files(params, state, value);
    files.write(content(epoch + 1), plan);
  }
}

}  // namespace

TEST_CASE("keep_last_n, keep_best_k and listed epochs", "[train]") {
  train::TrainingParams params;
  params.average_best_models = false;
  SECTION("none by default") {
    const Folder folder;
    write_run(folder, params);
    CHECK(folder.epochs().empty());
    CHECK(fs::exists(folder.path / "ckpt_previous.pth"));
    CHECK(tensor::Checkpoint::read(folder.path / "ckpt_previous.pth").epoch == 19);
    CHECK(tensor::Checkpoint::read(folder.path / "ckpt_latest.pth").epoch == 20);
  }
  SECTION("the last two, the best two and the fifth") {
    const Folder folder;
    params.keep_last_n = 2;
    params.keep_best_k = 2;
    params.save_ckpt_epoch_list = {5};
    write_run(folder, params);
    CHECK(folder.epochs() == std::set<std::string>{"ckpt_epoch_4.pth", "ckpt_epoch_5.pth",
                                                   "ckpt_epoch_8.pth", "ckpt_epoch_19.pth",
                                                   "ckpt_epoch_20.pth"});
  }
}

TEST_CASE("a broken newest file gives way to the one before, and stays out of its place",
          "[train]") {
  const Folder folder;
  train::TrainingParams params;
  params.average_best_models = false;
  write_run(folder, params);
  std::ofstream(folder.path / "ckpt_latest.pth") << "not a checkpoint";
  const fs::path file = train::newest_readable(folder.path, "ckpt_latest.pth");
  CHECK(file.filename() == "ckpt_previous.pth");
  train::CheckpointFiles files(folder.path, params);
  files.resumed_from(file, {});
  files.write(content(21), {});
  CHECK(tensor::Checkpoint::read(folder.path / "ckpt_previous.pth").epoch == 19);
  CHECK(tensor::Checkpoint::read(folder.path / "ckpt_latest.pth").epoch == 21);
  fs::remove(folder.path / "ckpt_latest.pth");
  fs::remove(folder.path / "ckpt_previous.pth");
  CHECK_THROWS_AS(train::newest_readable(folder.path, "ckpt_latest.pth"), core::InputError);
}

TEST_CASE("files of a run can be changed in place one by one", "[train]") {
  const Folder folder;
  train::TrainingParams params;
  params.average_best_models = false;
  params.keep_last_n = 2;
  train::CheckpointFiles files(folder.path, params);
  train::TrainState state;
  for (int epoch = 0; epoch < 3; ++epoch) {
    state.epoch = epoch + 1;
    state.has_best = true;
    state.best_epoch = epoch;  // always the newest: every name is written
    files.write(content(epoch + 1), train::plan_files(params, state, 0.1 * epoch));
  }
  const std::vector<std::string> names{"ckpt_latest.pth", "ckpt_best.pth", "ckpt_epoch_3.pth",
                                       "ckpt_epoch_2.pth", "ckpt_previous.pth"};
  for (std::size_t damaged = 0; damaged < names.size(); ++damaged) {
    {
      std::fstream file(folder.path / names[damaged],
                        std::ios::in | std::ios::out | std::ios::binary);
      file << "damaged";
    }
    CHECK_THROWS_AS(tensor::Checkpoint::read(folder.path / names[damaged]), core::InputError);
    for (std::size_t other = damaged + 1; other < names.size(); ++other)
      CHECK(tensor::Checkpoint::read(folder.path / names[other]).epoch == (other < 3 ? 3 : 2));
    if (damaged + 1 == names.size()) break;
    // What a resume falls back to: the previous file first, then the furthest of the others.
    const fs::path file = train::newest_readable(folder.path, "ckpt_latest.pth");
    CHECK(file.filename() == "ckpt_previous.pth");
  }
  CHECK_THROWS_AS(train::newest_readable(folder.path, "ckpt_latest.pth"), core::InputError);
}

TEST_CASE("the writer's copy does not see what changes afterwards", "[train]") {
  train::CheckpointWriter writer;
  const at::Tensor weights = at::arange(12.0).reshape({3, 4}).t();
  Value seen;
  for (int round = 0; round < 3; ++round) {
    const Value value = Value::dict({{"w", weights}, {"list", Value::list({weights, 1.5})}});
    const at::Tensor expected = weights.clone();
    const bool late = round != 1;
    const train::CheckpointWriter::Addresses still{weights.const_data_ptr()};
    writer.submit(value, late ? still : train::CheckpointWriter::Addresses{},
                  [&seen](const Value& copy) { seen = copy; });
    if (late) writer.settle();
    weights.add_(1.0);
    writer.wait();
    CHECK(at::equal(seen["w"].as_tensor(), expected));
    CHECK(at::equal(seen["list"].items()[0].as_tensor(), expected));
    CHECK(seen["list"].items()[1].as_double() == 1.5);
  }
}
