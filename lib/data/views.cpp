#include "data/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <vector>

#include "core/error.h"

namespace sgtrain::data {
namespace {

/// Hands everything on.
class View : public Dataset {
 public:
  explicit View(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {}
  Task task() const override { return inner_->task(); }
  std::int64_t size() const override { return inner_->size(); }
  Annotation annotation(std::int64_t index) const override { return inner_->annotation(index); }
  Sample load(std::int64_t index) const override { return inner_->load(index); }
  std::string image_path(std::int64_t index) const override { return inner_->image_path(index); }
  bool images_are_files() const override { return inner_->images_are_files(); }
  cv::Size input_dim() const override { return inner_->input_dim(); }
  const std::vector<std::string>& class_names() const override { return inner_->class_names(); }
  const Report& report() const override { return inner_->report(); }
  std::int64_t num_classes() const override { return inner_->num_classes(); }

 protected:
  std::unique_ptr<Dataset> inner_;
};

class Part final : public View {
 public:
  Part(std::unique_ptr<Dataset> inner, double fraction)
      : View(std::move(inner)),
        size_(std::max<std::int64_t>(
            1, std::llround(fraction * static_cast<double>(inner_->size())))) {}
  std::int64_t size() const override { return size_; }
  Annotation annotation(std::int64_t index) const override {
    return inner_->annotation(inner_index(index));
  }
  Sample load(std::int64_t index) const override {
    Sample sample = inner_->load(inner_index(index));
    sample.index = index;
    return sample;
  }
  std::string image_path(std::int64_t index) const override {
    return inner_->image_path(inner_index(index));
  }

 private:
  std::int64_t inner_index(std::int64_t index) const {
    if (index < 0 || index >= size_)
      throw core::Error(fmt::format("sample {} of {} asked for", index, size_), report().title);
    return index * inner_->size() / size_;
  }
  std::int64_t size_;
};

class InMemory final : public View {
 public:
  explicit InMemory(std::unique_ptr<Dataset> inner)
      : View(std::move(inner)), samples_(static_cast<std::size_t>(size())) {}
  ~InMemory() override {
    for (auto& sample : samples_) delete sample.load();
  }
  Sample load(std::int64_t index) const override {
    std::atomic<const Sample*>& place = samples_.at(static_cast<std::size_t>(index));
    if (const Sample* sample = place.load(std::memory_order_acquire)) return *sample;
    auto fresh = std::make_unique<const Sample>(inner_->load(index));
    const Sample* expected = nullptr;  // two threads may decode one picture; the first is kept
    if (!place.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
      return *expected;
    return *fresh.release();
  }

 private:
  mutable std::vector<std::atomic<const Sample*>> samples_;
};

}  // namespace

std::unique_ptr<Dataset> part_of(std::unique_ptr<Dataset> dataset, double fraction) {
  if (fraction >= 1.0) return dataset;
  return std::make_unique<Part>(std::move(dataset), fraction);
}

std::unique_ptr<Dataset> kept_in_memory(std::unique_ptr<Dataset> dataset, std::size_t budget) {
  constexpr double kMiB = 1024.0 * 1024.0;
  std::optional<Sample> first;
  for (std::int64_t i = 0; !first && i < std::min<std::int64_t>(dataset->size(), 8); ++i) {
    try {
      first = dataset->load(i);
    } catch (const core::Error&) {  // a damaged picture: the loader will name it
    }
  }
  if (first) {
    const double bytes = static_cast<double>(first->image.total() * first->image.elemSize()) *
                         static_cast<double>(dataset->size());
    if (bytes > static_cast<double>(budget)) {
      throw core::InputError(
          fmt::format("cache: {} decoded pictures take about {:.0f} MiB, {:.0f} MiB may be used",
                      dataset->size(), bytes / kMiB, static_cast<double>(budget) / kMiB),
          dataset->report().title, "leave out cache=ram");
    }
  }
  return std::make_unique<InMemory>(std::move(dataset));
}

}  // namespace sgtrain::data
