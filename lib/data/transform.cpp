#include "data/transform.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/stage_clock.h"
#include "core/text.h"
#include "data/boxes.h"
#include "data/pixels.h"

namespace sgtrain::data {
namespace {

/// Tries before load_other() takes a sample without boxes, or gives up on damaged ones.
constexpr int kTries = 32;

void flatten(const core::Component& component, Pipeline::Params& out) {
  if (core::fuzzy_key(component.name) == "compose") {
    core::Node params = component.params;
    for (const core::Component& inner : params.components("transforms")) flatten(inner, out);
    return;
  }
  out.names.push_back(component.name);
  out.makers.push_back(Transform::registry().parse(component));
}

}  // namespace

Transform::Registry& Transform::registry() {
  static Registry registry("transform");
  return registry;
}

// ------------------------------------------------------------------- Scratch

cv::Mat Scratch::take(cv::Size size, int type) {
  const std::int64_t wanted =
      static_cast<std::int64_t>(size.width) * size.height * CV_ELEM_SIZE(type);
  if (size.empty() || wanted > std::numeric_limits<int>::max() - 64) {
    throw core::Error("an image of " + std::to_string(size.width) + "x" +
                      std::to_string(size.height) + " pixels cannot be made");
  }
  const auto bytes = static_cast<int>(wanted);
  cv::Mat* best = nullptr;
  for (cv::Mat& block : blocks_) {
    if (block.u != nullptr && block.u->refcount == 1 &&
        (best == nullptr || block.cols > best->cols)) {
      best = &block;
    }
  }
  if (best == nullptr) best = &blocks_.emplace_back();
  // A margin lets kernels read a few bytes past the last pixel.
  if (best->cols < bytes + 64) best->create(1, bytes + 64, CV_8U);
  return best->colRange(0, bytes).reshape(CV_MAT_CN(type), size.height);
}

bool Scratch::owns(const cv::Mat& image) const {
  return image.u != nullptr && image.u->refcount == 2 &&
         std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const cv::Mat& block) { return block.u == image.u; });
}

// ------------------------------------------------------------------- Context

Sample Context::load_other(bool with_objects) {
  if (source_ == nullptr || source_->size() == 0) {
    throw core::Error("a transform asked for another sample, but there is no data set");
  }
  const std::int64_t size = source_->size();
  std::int64_t index = random.below(size);
  for (int tries = 0; with_objects && tries < kTries && !source_->has_objects(index); ++tries) {
    index = random.below(size);
  }
  for (int tries = 0;; ++tries) {
    try {
      Sample other = source_->load(index);
      clip_boxes(other.boxes, other.image.size());
      return other;
    } catch (const core::Error&) {
      if (tries == kTries || tries >= size) throw;
      index = (index + 1) % size;
    }
  }
}

bool Context::in_slot(const cv::Mat& image) const {
  return !slot_.empty() && image.data >= slot_.data && image.data < slot_.dataend;
}

cv::Mat Context::result(cv::Size size) {
  const bool free = !slot_.empty() && !(current_ != nullptr && in_slot(*current_));
  if (free && at_last_maker_ && slot_.size() == size) return slot_;
  if (free && !at_last_maker_ && last_maker_ != nullptr) {
    const auto at = last_maker_->place(size);
    if (at && (cv::Rect(*at, size) & cv::Rect({0, 0}, slot_.size())) == cv::Rect(*at, size)) {
      return slot_(cv::Rect(*at, size));
    }
  }
  return scratch_.image(size);
}

bool Context::stands(const cv::Mat& image, cv::Size size, cv::Point at) const {
  return at_last_maker_ && slot_.size() == size && image.step == slot_.step &&
         image.data == slot_.ptr(at.y, at.x);
}

void Context::own(cv::Mat& image) {
  const bool alone = image.u != nullptr && image.u->refcount == 1;
  if (alone || scratch_.owns(image) || in_slot(image)) return;
  cv::Mat copy = scratch_.image(image.size());
  image.copyTo(copy);
  image = copy;
}

// ------------------------------------------------------------------ Pipeline

Pipeline::Params Pipeline::Params::from(core::Node& dataset_params) {
  Params params;
  for (const core::Component& component : dataset_params.components("transforms")) {
    flatten(component, params);
  }
  return params;
}

Pipeline::Pipeline(const Params& params, Task task, std::string_view where)
    : names_(params.names), starts_bgr_(task == Task::kDetection || task == Task::kPose) {
  for (const auto& maker : params.makers) transforms_.emplace_back().transform = maker();
  fold(where);
}

Pipeline::Pipeline(std::vector<std::unique_ptr<Transform>> transforms,
                   std::vector<std::string> names, bool starts_bgr, std::string_view where)
    : names_(std::move(names)), starts_bgr_(starts_bgr) {
  for (auto& transform : transforms) transforms_.emplace_back().transform = std::move(transform);
  fold(where);
}

void Pipeline::fold(std::string_view where) {
  std::string normaliser;
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    Step& step = transforms_[i];
    const std::string name = i < names_.size() ? names_[i] : "transform " + std::to_string(i);
    step.before = normalisation_;
    if (step.transform->fold(normalisation_)) {
      step.folded = true;
      normaliser = name;
      continue;
    }
    if (!normaliser.empty() && !step.transform->after_normalisation()) {
      throw core::InputError(
          "transform '" + name + "' stands behind '" + normaliser + "'", where,
          "move '" + name + "' before it: images are bytes until the device normalises them");
    }
    if (step.transform->keeps_size()) continue;
    output_size_ = step.transform->fixed_size();
    last_maker_ = i + 1;
  }
}

void Pipeline::apply(Sample& sample, Context& ctx, cv::Mat slot) const {
  const core::StageTimer timer(core::Stage::kAugment);
  ctx.bgr = ctx.starts_bgr_ = starts_bgr_;
  ctx.slot_ = slot;
  ctx.last_maker_ = last_maker_ > 0 ? transforms_[last_maker_ - 1].transform.get() : nullptr;
  clip_boxes(sample.boxes, sample.image.size());
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const Step& step = transforms_[i];
    if (step.folded) continue;
    ctx.normalisation = step.before;
    ctx.at_last_maker_ = i + 1 == last_maker_;
    ctx.current_ = &sample.image;
    if (ctx.at_last_maker_ && ctx.in_slot(sample.image)) {
      const auto at = step.transform->place(sample.image.size());
      if (!at || !ctx.stands(sample.image, slot.size(), *at)) {
        cv::Mat copy = ctx.scratch(sample.image.size());
        sample.image.copyTo(copy);
        sample.image = copy;
      }
    }
    step.transform->apply(sample, ctx);
  }
  ctx.current_ = nullptr;
  if (!slot.empty() && (sample.image.data != slot.data || sample.image.size() != slot.size())) {
    if (sample.image.size() != slot.size()) {
      throw core::Error("the transforms made an image of " + std::to_string(sample.image.cols) +
                            "x" + std::to_string(sample.image.rows) + " instead of " +
                            std::to_string(slot.cols) + "x" + std::to_string(slot.rows),
                        sample.name);
    }
    sample.image.copyTo(slot);
    sample.image = slot;
  }
  if (ctx.bgr) {
    ctx.own(sample.image);
    swap_red_blue(sample.image);
    ctx.bgr = false;
  }
}

void Pipeline::close_mosaic() {
  for (Step& step : transforms_) step.transform->close();
}

ProcessingList Pipeline::processing(std::optional<cv::Size> input_dim) const {
  ProcessingList out;
  if (starts_bgr_) out.push_back(processing_entry("ReverseImageChannels"));
  if (input_dim) {
    out.push_back(processing_entry(
        "DetectionLongestMaxSizeRescale",
        {{"output_shape", tree_of(*input_dim)}, {"cut_sides", core::Tree::of(true)}}));
  }
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const auto steps = transforms_[i].transform->processing();
    if (!steps) {
      throw core::Error(
          "transform '" + names_[i] + "' is random: it has no preprocessing for prediction", {},
          "take the preprocessing from the validation data set");
    }
    out.insert(out.end(), steps->begin(), steps->end());
  }
  return out;
}

// ------------------------------------------------------------ ProcessingList

core::TreePtr processing_entry(std::string name,
                               std::vector<std::pair<std::string, core::TreePtr>> params) {
  const core::TreePtr values = core::Tree::make_map();
  for (auto& [key, value] : params) values->set(key, std::move(value));
  const core::TreePtr entry = core::Tree::make_map();
  entry->set(name, values);
  return entry;
}

core::TreePtr tree_of(cv::Size size) {
  const core::TreePtr list = core::Tree::make_list();
  list->list.push_back(core::Tree::of(static_cast<std::int64_t>(size.height)));
  list->list.push_back(core::Tree::of(static_cast<std::int64_t>(size.width)));
  return list;
}

core::TreePtr tree_of(std::span<const double> values) {
  const core::TreePtr list = core::Tree::make_list();
  for (const double value : values) list->list.push_back(core::Tree::of(value));
  return list;
}

}  // namespace sgtrain::data
