#include "loader/loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <opencv2/core.hpp>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/random.h"
#include "loader/buffers.h"
#include "loader/collate.h"

namespace sgtrain::loader {
namespace {

using Clock = std::chrono::steady_clock;

/// How many images in a row may be unreadable before that is an error.
constexpr int kMaxReplacements = 64;
/// Separates streams of batch transforms from those of samples.
constexpr std::uint64_t kBatchStream = 0x4241544348;

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Other samples for mixup and mosaic.
class DatasetSource final : public data::SampleSource {
 public:
  explicit DatasetSource(const data::Dataset& dataset) : dataset_(dataset) {}
  std::int64_t size() const override { return dataset_.size(); }
  bool has_objects(std::int64_t index) const override {
    return !dataset_.annotation(index).boxes.empty();
  }
  data::Sample load(std::int64_t index) const override {
    const core::StageTimer timer(core::Stage::kDecode);
    return dataset_.load(index);
  }

 private:
  const data::Dataset& dataset_;
};

/// A batch being made.
struct Job {
  std::int64_t number = 0;
  std::vector<data::Item> items;
  std::vector<data::Sample> samples;
  std::vector<char> missing;
  at::Tensor images;     // pixels are written here where the output size is fixed
  std::size_t next = 0;  // first item that no thread has taken
  std::size_t left = 0;  // items not finished
  bool done = false;
  tensor::Batch batch;
  std::exception_ptr error;
  std::size_t error_item = 0;
};

}  // namespace

class Loader::Impl {
 public:
  Impl(const data::Dataset& dataset, const data::Pipeline& pipeline, const LoaderParams& params,
       const LoaderSetup& setup)
      : dataset_(dataset),
        pipeline_(pipeline),
        params_(params),
        setup_(setup),
        source_(dataset),
        buffers_(params.pin_memory && setup.pinned) {
    cv::setNumThreads(0);  // parallel over images, not inside them
    if (params.sampler) sampler_ = params.sampler();
    for (const auto& maker : params.batch_transforms) batch_transforms_.push_back(maker());
    std::vector<std::int64_t> order = epoch_order(0);
    images_ = static_cast<std::int64_t>(order.size());
    const auto items = items_of(std::move(order));
    batches_ = data::checked_batch_count(dataset.size(), static_cast<std::int64_t>(items.size()),
                                         rules(), setup.shard, params.where);
    stats_.threads = params.num_workers;
  }

  ~Impl() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void begin(std::int64_t epoch, std::int64_t start_batch) {
    std::unique_lock lock(mutex_);
    jobs_.clear();
    idle_.wait(lock, [this] { return active_ == 0; });
    epoch_ = epoch;
    items_ = items_of(epoch_order(epoch));
    cuts_ = data::cut_batches(static_cast<std::int64_t>(items_.size()), rules());
    cursor_ = std::clamp<std::int64_t>(start_batch, 0, static_cast<std::int64_t>(cuts_.size()) - 1);
    position_ = cursor_ - 1;
    stats_ = {.threads = params_.num_workers};
    for (auto& stage : stages_) stage = 0;
    skipped_ = 0;
    started_ = Clock::now();
    if (params_.num_workers > 0) {
      top_up();
      start_threads();
    }
  }

  std::optional<tensor::Batch> next() {
    for (;;) {
      std::shared_ptr<Job> job = params_.num_workers > 0 ? wait_for_job() : run_job_here();
      if (!job) return std::nullopt;
      if (job->error) {
        drop_epoch();
        std::rethrow_exception(job->error);
      }
      position_ = job->number;
      if (job->batch.size() == 0) continue;  // none of its images could be decoded
      stats_.images += job->batch.size();
      ++stats_.batches;
      return std::move(job->batch);
    }
  }

  LoaderStats stats() const {
    LoaderStats out = stats_;
    for (std::size_t i = 0; i < stages_.size(); ++i) out.stages[i] = stages_[i];
    out.skipped = skipped_;
    out.wall = nanoseconds_since(started_);
    return out;
  }

  const data::Dataset& dataset_;
  const data::Pipeline& pipeline_;
  const LoaderParams params_;
  const LoaderSetup setup_;
  std::vector<std::unique_ptr<BatchTransform>> batch_transforms_;
  std::int64_t batches_ = 0;
  std::int64_t images_ = 0;
  std::int64_t position_ = -1;

 private:
  data::BatchRules rules() const {
    return {params_.batch_size, params_.drop_last, setup_.training};
  }

  std::vector<std::int64_t> epoch_order(std::int64_t epoch) const {
    const std::int64_t size = dataset_.size();
    if (params_.min_samples && size < *params_.min_samples) {
      return data::shuffled_rounds(size, *params_.min_samples, setup_.seed, epoch);
    }
    if (sampler_) return sampler_->order(dataset_, setup_.seed, epoch, setup_.shard.count);
    if (params_.shuffle) return data::shuffled(size, setup_.seed, epoch);
    std::vector<std::int64_t> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  }

  /// Where the rest is dropped, no image is repeated so that all shards have as many: an epoch has
  /// the same batches on any number of shards.
  std::vector<data::Item> items_of(std::vector<std::int64_t> order) const {
    const auto shards = static_cast<std::size_t>(setup_.shard.count);
    if (setup_.training && params_.drop_last) order.resize(order.size() / shards * shards);
    return data::shard_items(std::move(order), setup_.shard, setup_.training);
  }

  // ---------------------------------------------------------------- batches

  std::shared_ptr<Job> make_job() {
    const auto b = static_cast<std::size_t>(cursor_);
    if (b + 1 >= cuts_.size()) return nullptr;
    auto job = std::make_shared<Job>();
    job->number = cursor_++;
    job->items.assign(items_.begin() + cuts_[b], items_.begin() + cuts_[b + 1]);
    job->samples.resize(job->items.size());
    job->missing.resize(job->items.size());
    job->left = job->items.size();
    if (const auto size = pipeline_.output_size()) {
      job->images =
          buffers_.images(static_cast<std::int64_t>(job->items.size()), size->height, size->width);
    }
    return job;
  }

  /// Enough batches under way that every thread finds work.
  void top_up() {
    const std::int64_t ahead = std::max<std::int64_t>(
        params_.prefetch_factor,
        (2 * params_.num_workers + params_.batch_size - 1) / params_.batch_size + 1);
    while (static_cast<std::int64_t>(jobs_.size()) < ahead) {
      auto job = make_job();
      if (!job) break;
      jobs_.push_back(std::move(job));
    }
    work_.notify_all();
  }

  std::shared_ptr<Job> wait_for_job() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    if (jobs_.empty()) return nullptr;
    ready_.wait(lock, [this] { return jobs_.front()->done; });
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    top_up();
    stats_.wait += nanoseconds_since(start);
    return job;
  }

  std::shared_ptr<Job> run_job_here() {
    const auto start = Clock::now();
    auto job = make_job();
    if (!job) return nullptr;
    for (std::size_t i = 0; i < job->items.size() && !job->error; ++i) run_item(*job, i, scratch_);
    if (!job->error) finish(*job);
    stats_.wait += nanoseconds_since(start);
    return job;
  }

  void drop_epoch() {
    const std::scoped_lock lock(mutex_);
    jobs_.clear();
    cursor_ = static_cast<std::int64_t>(cuts_.size()) - 1;
  }

  // ---------------------------------------------------------------- threads

  void start_threads() {
    while (static_cast<int>(threads_.size()) < params_.num_workers) {
      threads_.emplace_back([this] { work(); });
    }
  }

  std::shared_ptr<Job> open_job() const {
    for (const auto& job : jobs_) {
      if (job->next < job->items.size()) return job;
    }
    return nullptr;
  }

  void work() {
    data::Scratch scratch;
    std::unique_lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Job> job;
      work_.wait(lock, [&] { return stop_ || (job = open_job()) != nullptr; });
      if (stop_) return;
      const std::size_t item = job->next++;
      ++active_;
      lock.unlock();
      run_item(*job, item, scratch);
      lock.lock();
      if (--job->left == 0) {
        lock.unlock();
        if (!job->error) finish(*job);
        lock.lock();
        job->done = true;
        ready_.notify_all();
      }
      job.reset();
      if (--active_ == 0) idle_.notify_all();
    }
  }

  // ----------------------------------------------------------------- images

  void run_item(Job& job, std::size_t item, data::Scratch& scratch) {
    try {
      job.missing[item] = make_sample(job, item, scratch) ? 0 : 1;
    } catch (...) {
      const std::scoped_lock lock(error_mutex_);
      if (!job.error || item < job.error_item) {
        job.error = std::current_exception();
        job.error_item = item;
      }
    }
    flush_times();
  }

  /// False when the image cannot be decoded and nothing takes its place.
  bool make_sample(Job& job, std::size_t slot, data::Scratch& scratch) {
    data::Item item = job.items[slot];
    std::optional<data::Sample> sample;
    for (int tries = 0;; ++tries) {
      sample = load(item.index);
      if (sample) break;
      if (!setup_.training) return false;
      if (tries == kMaxReplacements || tries >= dataset_.size()) {
        throw core::Error(std::to_string(tries + 1) + " images in a row cannot be decoded",
                          dataset_.image_path(item.index), "check the data set's images");
      }
      item.index = (item.index + 1) % dataset_.size();
    }
    sample->index = item.index;
    const core::Random stream{setup_.seed, static_cast<std::uint64_t>(epoch_),
                              static_cast<std::uint64_t>(item.index),
                              static_cast<std::uint64_t>(item.repeat)};
    data::Context context(stream, scratch, &source_);
    const cv::Mat place = place_of(job.images, slot);
    try {
      pipeline_.apply(*sample, context, place);
    } catch (const std::exception& error) {
      throw core::Error(std::string("a transform failed: ") + error.what(),
                        dataset_.image_path(item.index));
    }
    if (!place.empty()) {
      sample->image.release();
    } else if (sample->image.u == nullptr || sample->image.u->refcount != 1) {
      sample->image = sample->image.clone();  // out of this thread's scratch memory
    }
    job.samples[slot] = std::move(*sample);
    return true;
  }

  /// Nothing when the image cannot be decoded and the run is to go on.
  std::optional<data::Sample> load(std::int64_t index) {
    try {
      data::Sample sample = source_.load(index);
      if (!sample.warning.empty()) core::log::warning_once("{}", sample.warning);
      return sample;
    } catch (const core::Error& error) {
      if (params_.bad_images == BadImages::kError) throw;
      ++skipped_;
      core::log::warning_once("{} (skipped)", error.what());
      return std::nullopt;
    }
  }

  static cv::Mat place_of(const at::Tensor& images, std::size_t slot) {
    if (!images.defined()) return {};
    const int height = static_cast<int>(images.size(1)), width = static_cast<int>(images.size(2));
    auto* bytes = images.mutable_data_ptr<std::uint8_t>() + slot * static_cast<std::size_t>(3) *
                                                                static_cast<std::size_t>(height) *
                                                                static_cast<std::size_t>(width);
    return {height, width, CV_8UC3, bytes};
  }

  void finish(Job& job) {
    try {
      const core::StageTimer timer(core::Stage::kCollate);
      job.batch =
          collate(job.samples, job.missing, std::move(job.images), dataset_.task(), buffers_);
      job.samples.clear();
    } catch (...) {
      job.error = std::current_exception();
    }
    flush_times();
  }

  void flush_times() {
    core::StageTimes& times = core::stage_times();
    for (std::size_t i = 0; i < times.size(); ++i) {
      stages_[i] += times[i];
      times[i] = 0;
    }
  }

  const DatasetSource source_;
  Buffers buffers_;
  std::unique_ptr<data::Sampler> sampler_;
  data::Scratch scratch_;  // of the calling thread

  // The epoch; changed only while no thread works.
  std::int64_t epoch_ = 0;
  std::vector<data::Item> items_;
  std::vector<std::int64_t> cuts_{0};
  std::int64_t cursor_ = 0;  // next batch to be made

  mutable std::mutex mutex_;
  std::condition_variable work_, ready_, idle_;
  std::deque<std::shared_ptr<Job>> jobs_;  // in order
  int active_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
  std::mutex error_mutex_;

  LoaderStats stats_;
  std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(core::Stage::kCount)> stages_{};
  std::atomic<std::int64_t> skipped_{0};
  Clock::time_point started_ = Clock::now();
};

Loader::Loader(const data::Dataset& dataset, const data::Pipeline& pipeline,
               const LoaderParams& params, const LoaderSetup& setup)
    : impl_(std::make_unique<Impl>(dataset, pipeline, params, setup)) {}
Loader::~Loader() = default;

std::int64_t Loader::batches() const {
  return impl_->batches_;
}
std::int64_t Loader::images() const {
  return impl_->images_;
}
const data::Pipeline& Loader::pipeline() const {
  return impl_->pipeline_;
}
const data::Dataset& Loader::dataset() const {
  return impl_->dataset_;
}
const LoaderParams& Loader::params() const {
  return impl_->params_;
}
void Loader::begin(std::int64_t epoch, std::int64_t start_batch) {
  impl_->begin(epoch, start_batch);
}
std::optional<tensor::Batch> Loader::next() {
  return impl_->next();
}
std::int64_t Loader::position() const {
  return impl_->position_;
}
const std::vector<std::unique_ptr<BatchTransform>>& Loader::batch_transforms() const {
  return impl_->batch_transforms_;
}
core::Random Loader::batch_random(std::int64_t epoch, std::int64_t batch) const {
  return {kBatchStream, impl_->setup_.seed, static_cast<std::uint64_t>(epoch),
          static_cast<std::uint64_t>(batch), static_cast<std::uint64_t>(impl_->setup_.shard.index)};
}
LoaderStats Loader::stats() const {
  return impl_->stats();
}

}  // namespace sgtrain::loader
