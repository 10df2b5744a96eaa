#include "train/entry.h"

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/log.h"
#include "core/process.h"
#include "core/signals.h"
#include "core/writable.h"
#include "dist/factory.h"
#include "dist/launcher.h"
#include "models/build.h"
#include "tensor/checkpoint.h"
#include "tensor/device.h"
#include "train/assemble.h"
#include "train/check.h"
#include "train/checkpoint_files.h"
#include "train/places.h"
#include "train/run_dir.h"
#include "train/trainer.h"

namespace sgtrain::train {
namespace fs = std::filesystem;
namespace {

/// The device of this process among those the plan names.
at::Device device_of(const std::string& text, const dist::World& world) {
  if (text == "cpu") return at::kCPU;
  const auto devices = tensor::resolve_device(text);
  if (devices.size() > 1) return devices.at(static_cast<std::size_t>(world.local_rank));
  if (text == "cuda" && world.local_world_size > 1)
    return {at::kCUDA, static_cast<at::DeviceIndex>(world.local_rank)};
  return devices.front();
}

/// Folder to continue in, and the checkpoint to continue from.
struct Resume {
  std::optional<fs::path> dir, checkpoint;
};

/// The folder's newest checkpoint that can be read; nullopt when it has none.
std::optional<fs::path> checkpoint_in(const fs::path& dir, const std::string& name) {
  if (!fs::exists(dir / name) && !fs::exists(dir / kPrevious)) return std::nullopt;
  return newest_readable(dir, name);
}

Resume find_resume(const RunPlan& plan, const EntryOptions& options) {
  const TrainingParams& p = plan.training;
  if (options.run_dir) return {*options.run_dir, checkpoint_in(*options.run_dir, p.ckpt_name)};
  if (p.resume_path) {
    if (!fs::exists(*p.resume_path)) {
      throw core::InputError("there is no such checkpoint", fs::absolute(*p.resume_path).string(),
                             "give resume_path the path of a ckpt_latest.pth");
    }
    return {std::nullopt, fs::path(*p.resume_path)};  // a new run folder
  }
  if (p.run_id) {
    const fs::path dir = plan.ckpt_root_dir / plan.experiment_name / *p.run_id;
    const auto checkpoint = checkpoint_in(dir, p.ckpt_name);
    if (!checkpoint) {
      throw core::InputError(
          "run_id names no run with a " + p.ckpt_name, fs::absolute(dir).string(),
          "see the folders below " + (plan.ckpt_root_dir / plan.experiment_name).string());
    }
    return {dir, checkpoint};
  }
  if (!p.resume) return {};
  const auto dir = latest_run_dir(plan.ckpt_root_dir, plan.experiment_name, p.ckpt_name);
  if (!dir) {
    core::log::warning("resume: no run of '{}' below {} has a {}; starting a new one",
                       plan.experiment_name, fs::absolute(plan.ckpt_root_dir).string(),
                       p.ckpt_name);
    return {};
  }
  return {*dir, checkpoint_in(*dir, p.ckpt_name)};
}

Place place_of(const RunPlan& plan, const std::string& device_text) {
  const dist::World& world = dist::World::current();
  Place place;
  tensor::set_threads(0, world.local_world_size);
  tensor::keep_memory();
  place.device = device_of(device_text, world);
  tensor::use_device(place.device);
  place.comm = dist::make_communicator(
      world, place.device,
      {.timeout =
           std::chrono::milliseconds(static_cast<std::int64_t>(plan.launch.timeout_seconds * 1000)),
       .interface = plan.launch.interface});
  dist::check_equal(*place.comm, "the recipe", plan.resolved_recipe);
  return place;
}

void show_notes(const RunPlan& plan) {
  dist::on_main([&] {
    for (const std::string& note : plan.notes) core::log::info("note: {}", note);
  });
}

/// Starts the workers where several are needed; nullopt when this process does the work itself.
std::optional<int> launch_workers(const Places& places, const EntryOptions& options) {
  const dist::World& world = dist::World::current();
  if (world.joined) {
    if (world.launched_by != "sgtrain" && world.world_size != places.processes) {
      dist::on_main([&] {
        core::log::info("{} started {} processes, which overrides the recipe's {}",
                        world.launched_by, world.world_size, places.processes);
      });
    }
    return std::nullopt;
  }
  const Nodes& nodes = options.nodes;
  if (places.processes <= 1 && nodes.count <= 1) return std::nullopt;
  std::vector<std::string> argv{core::executable_path().string()};
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  return dist::launch({.processes = places.processes,
                       .argv = std::move(argv),
                       .nodes = nodes.count,
                       .node_rank = nodes.rank,
                       .master_addr = nodes.master_addr,
                       .master_port = nodes.master_port});
}

fs::path make_dir(const RunPlan& plan, const std::optional<fs::path>& wanted) {
  const fs::path dir = wanted ? *wanted : create_run_dir(plan.ckpt_root_dir, plan.experiment_name);
  fs::create_directories(dir);
  core::write_file_atomically(dir / "recipe.resolved.yaml", plan.resolved_recipe);
  return fs::absolute(dir);
}

void print_values(const NamedValues& values) {
  for (const auto& [name, value] : values) core::log::result("{:<40} {:.6f}\n", name, value);
}

void print_end(const FitResult& result) {
  core::log::result("{}", result.table);
  if (result.best_epoch >= 0) {
    core::log::result("best {} = {:.6f} in epoch {}\n", result.watched, result.best_metric,
                      result.best_epoch);
  }
  if (!result.best_checkpoint.empty()) {
    core::log::result("best checkpoint: {}\n", result.best_checkpoint.string());
    core::log::result("predict with it: sgtrain predict --checkpoint {} IMAGES\n",
                      result.best_checkpoint.string());
  }
}

/// When things happened in a dry run.
class StepClock final : public Callback {
 public:
  using Clock = std::chrono::steady_clock;
  Requests on_train_batch_start(PhaseContext&) override { return note(step_start); }
  Requests on_train_batch_end(PhaseContext&) override { return note(step_end); }
  Requests on_validation_loader_start(PhaseContext&) override { return note(valid_start); }
  Requests on_validation_loader_end(PhaseContext&) override { return note(valid_end); }
  static double seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }
  Clock::time_point step_start{}, step_end{}, valid_start{}, valid_end{};

 private:
  static Requests note(Clock::time_point& moment) {
    moment = Clock::now();
    return {};
  }
};

/// A folder that goes when the dry run ends, however it ends.
struct Scratch {
  fs::path path = fs::temp_directory_path() / fmt::format("sgtrain-dry-run-{}", ::getpid());
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::uintmax_t largest_checkpoint(const fs::path& dir) {
  std::uintmax_t most = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    if (entry.path().extension() == ".pth") most = std::max(most, entry.file_size(ignored));
  }
  return most;
}

int dry_run(RunPlan& plan, const EntryOptions& options) {
  constexpr int kSteps = 3;  // the last one is warm
  const Places places = decide_places(plan.launch);
  if (const auto code = launch_workers(places, options)) return *code;
  show_notes(plan);
  Place place = place_of(plan, places.device);
  const int epochs = plan.training.max_epochs;
  const auto kept = plan.training.save_ckpt_epoch_list.size();
  plan.training.max_epochs = 1;
  plan.training.max_train_batches = kSteps;
  plan.training.max_valid_batches = 1;
  plan.training.average_best_models = false;
  plan.training.save_model = true;
  const Scratch scratch;
  place.make_run_dir = [&] { return make_dir(plan, scratch.path); };
  const auto run = assemble(plan, std::move(place));
  const auto train_batches = run->train_loader->batches(),
             valid_batches = run->valid_loader->batches();
  auto own = std::make_unique<StepClock>();
  const StepClock& clock = *own;
  run->callbacks.push_back({"dry run", std::move(own)});
  Trainer(*run).fit();
  dist::on_main([&] {
    constexpr double kMiB = 1024.0 * 1024.0;
    const double step = StepClock::seconds(clock.step_start, clock.step_end),
                 valid = StepClock::seconds(clock.valid_start, clock.valid_end);
    const double epoch =
        step * static_cast<double>(train_batches) +
        valid * static_cast<double>(valid_batches) / plan.training.run_validation_freq;
    const double checkpoint = static_cast<double>(largest_checkpoint(scratch.path)) / kMiB;
    core::log::result("dry run: all parts work, nothing was kept\n");
    core::log::result("peak memory of a process: {:.0f} MiB\n",
                      static_cast<double>(tensor::peak_memory(run->input.device)) / kMiB);
    core::log::result(
        "time per epoch: about {:.0f} s ({} steps of {:.2f} s, {} validation batches of {:.2f} s); "
        "{} epochs: {:.1f} h\n",
        epoch, train_batches, step, valid_batches, valid, epochs, epoch * epochs / 3600.0);
    core::log::result("disk: about {:.0f} MiB ({} checkpoints of {:.0f} MiB)\n",
                      checkpoint * static_cast<double>(kept + 3), kept + 3, checkpoint);
  });
  return 0;
}

}  // namespace

int train_recipe(const recipe::LoadOptions& recipe, const EntryOptions& options) {
  core::signals::install();
  RunPlan plan = plan_run(recipe);
  require_weights(plan);
  if (options.dry_run) return dry_run(plan, options);
  require_run_root(plan);
  const Resume resume = find_resume(plan, options);
  if (resume.dir) core::check_can_make_folder(*resume.dir);
  const Places places = decide_places(plan.launch);
  if (const auto code = launch_workers(places, options)) return *code;

  show_notes(plan);
  Place place = place_of(plan, places.device);
  place.make_run_dir = [&] {
    return plan.training.save_model ? make_dir(plan, resume.dir) : fs::path{};
  };
  const auto run = assemble(plan, std::move(place));
  core::signals::throw_if_stopped("stopped before the training began");
  if (!run->dir.empty()) dist::start_logging(dist::World::current(), run->dir / "logs");
  Trainer trainer(*run);
  if (resume.checkpoint) trainer.resume(*resume.checkpoint);
  const FitResult result = trainer.fit();
  dist::on_main([&] { print_end(result); });
  return 0;
}

int evaluate_recipe(const recipe::LoadOptions& recipe, const EvaluateOptions& options) {
  if (options.output) core::check_can_write_file(*options.output);
  core::signals::install();
  RunPlan plan = plan_run(
      recipe, {.training = false, .validation = !options.only_tests, .tests = options.only_tests});
  if (options.checkpoint) {
    plan.weights = {};
    if (plan.distillation) plan.distillation->teacher_weights = {};
  }
  if (!options.checkpoint && !plan.weights.checkpoint_path && !plan.weights.pretrained_weights) {
    throw core::InputError("nothing to evaluate: no weights are given", "evaluate",
                           "name a checkpoint or a run folder with --checkpoint, or weights with "
                           "pretrained=NAME (first weights would be random numbers)");
  }
  require_weights(plan);
  if (const auto& most = plan.training.max_valid_batches) {
    core::log::info(
        "only the first {} batches of each set are scored, as the recipe's max_valid_batches says "
        "(training_hyperparams.max_valid_batches=null: all)",
        *most);
  }
  const Places places = decide_places(plan.launch);
  if (const auto code = launch_workers(places, options.entry)) return *code;

  const auto run = assemble(plan, place_of(plan, places.device));
  if (options.checkpoint) {
    const auto weights = tensor::read_weights(*options.checkpoint, options.use_ema);
    models::load_model_state(*run->model, weights.tensors, models::StrictLoad::kOn,
                             options.checkpoint->string(),
                             /*allow_new_head=*/false);
    run->model->to_channels_last();
  }
  Evaluator evaluator(run->valid_metrics, run->loss.get(), *run->comm,
                      {.input = run->input,
                       .precision = run->precision,
                       .max_batches = plan.training.max_valid_batches,
                       .title = "Evaluating"});
  const auto started = std::chrono::steady_clock::now();
  NamedValues values;
  std::int64_t images = 0;
  if (run->valid_loader) {
    values = evaluator.run(*run->model, *run->valid_loader);
    images = run->valid_loader->images();
  }
  for (TestSet& set : run->tests) {
    for (const auto& [name, value] : evaluator.run(*run->model, *set.loader))
      values.emplace_back(set.name + "_" + name, value);
    images += set.loader->images();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  dist::on_main([&] {
    if (!plan.training.max_valid_batches) {
      core::log::info("evaluated {} images in {:.1f} s, {:.1f} images/s", images, took.count(),
                      static_cast<double>(images) / took.count());
    }
    print_values(values);
    if (options.output) {
      nlohmann::ordered_json json;
      for (const auto& [name, value] : values) json[name] = value;
      core::write_file_atomically(*options.output, json.dump(2) + "\n");
    }
  });
  return 0;
}

}  // namespace sgtrain::train
