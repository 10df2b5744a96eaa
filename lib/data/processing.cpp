#include "data/processing.h"

#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "core/text.h"
#include "data/pixels.h"

namespace sgtrain::data {
namespace {

void collect(const core::Component& component, core::TreePtr entry,
             std::vector<std::pair<Processing::Registry::MakerType, core::TreePtr>>& out) {
  if (core::fuzzy_key(component.name) == "composeprocessing") {
    core::Node params = component.params;
    core::Node list = params.child("processings");
    for (std::size_t i = 0; i < list.size(); ++i) {
      core::Node item = list.item(i);
      collect(item.as_component(), item.tree(), out);
    }
    return;
  }
  out.emplace_back(Processing::registry().parse(component), entry->clone());
}

}  // namespace

Processing::Registry& Processing::registry() {
  static Registry registry("processing");
  return registry;
}

Preprocessing Preprocessing::from(core::Node& list) {
  const std::size_t before = list.problems()->items().size();
  std::vector<std::pair<Processing::Registry::MakerType, core::TreePtr>> makers;
  if (list.is_list()) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      core::Node item = list.item(i);
      collect(item.as_component(), item.tree(), makers);
    }
  } else {
    collect(list.as_component(), list.tree(), makers);
  }
  Preprocessing out;
  if (list.problems()->items().size() != before) return out;
  for (auto& [maker, entry] : makers) out.add(maker(), entry);
  return out;
}

Preprocessing Preprocessing::from(const ProcessingList& list, std::string_view where) {
  const core::TreePtr tree = core::Tree::make_list();
  for (const core::TreePtr& entry : list) tree->list.push_back(entry->clone());
  const auto problems = std::make_shared<core::Problems>();
  core::Node node(tree, problems, "processing_params");
  Preprocessing out = from(node);
  node.report_unread();
  problems->throw_if_any(where.empty() ? "preprocessing" : where);
  return out;
}

void Preprocessing::add(std::unique_ptr<Processing> step, core::TreePtr entry) {
  list_.push_back(std::move(entry));
  const bool normalised = !normalisation_.is_identity();
  const bool folded = step->fold(normalisation_, reversed_);
  if (!folded && normalised) {
    throw core::InputError("preprocessing: a step that moves pixels stands behind normalisation",
                           list_.back()->map.empty() ? "" : list_.back()->map.front().first,
                           "move StandardizeImage and NormalizeImage to the end");
  }
  steps_.push_back({std::move(step), folded, reversed_});
}

std::vector<Mapping> Preprocessing::plan(cv::Size picture) const {
  std::vector<Mapping> mappings;
  for (const Step& step : steps_) {
    if (step.folded) continue;
    Mapping mapping{.before = picture, .padding = {}, .after = picture};
    step.processing->plan(mapping);
    picture = mapping.after;
    mappings.push_back(mapping);
  }
  return mappings;
}

NetworkInput Preprocessing::operator()(const cv::Mat& rgb) const {
  CV_Assert(rgb.type() == CV_8UC3);
  NetworkInput input{.image = rgb, .mappings = plan(rgb.size()), .original = rgb.size()};
  auto mapping = input.mappings.begin();
  for (const Step& step : steps_) {
    if (!step.folded) input.image = step.processing->apply(input.image, step.reversed, *mapping++);
  }
  if (reversed_) {
    input.image = input.image.clone();
    swap_red_blue(input.image);
  }
  return input;
}

core::Geometry Preprocessing::geometry(cv::Size picture) const {
  return NetworkInput{.image = {}, .mappings = plan(picture), .original = picture}.geometry();
}

core::Geometry NetworkInput::geometry() const {
  core::Geometry geometry{.width = original.width, .height = original.height, .steps = {}};
  for (const Mapping& m : mappings) {
    geometry.steps.push_back({.scale_x = m.scale_x,
                              .scale_y = m.scale_y,
                              .shift_x = m.padding.left - m.crop.x,
                              .shift_y = m.padding.top - m.crop.y});
  }
  return geometry;
}

std::optional<cv::Size> Preprocessing::output_shape() const {
  std::optional<cv::Size> out;
  for (const Step& step : steps_) {
    if (const auto shape = step.processing->output_shape()) out = shape;
  }
  return out;
}

Preprocessing Preprocessing::without_resizing(int multiple) const {
  ProcessingList kept;
  kept.push_back(processing_entry("DetectionAutoPadding",
                                  {{"shape_multiple", tree_of(cv::Size(multiple, multiple))},
                                   {"pad_value", core::Tree::of(std::int64_t{0})}}));
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].folded || !steps_[i].processing->resizes_image()) kept.push_back(list_[i]);
  }
  return from(kept);
}

cv::Mat mask_to_original(const NetworkInput& input, const cv::Mat& mask) {
  cv::Mat out = mask;
  for (auto step = input.mappings.rbegin(); step != input.mappings.rend(); ++step) {
    const Padding& p = step->padding;
    out = out(cv::Rect(p.left, p.top, out.cols - p.left - p.right, out.rows - p.top - p.bottom));
    const bool cropped = out.size() != step->before && step->scale_x == 1.0 && step->scale_y == 1.0;
    if (cropped) {
      cv::Mat full = cv::Mat::zeros(step->before, out.type());
      out.copyTo(full(cv::Rect(step->crop, out.size())));
      out = full;
    } else if (out.size() != step->before) {
      cv::Mat full;
      cv::resize(out, full, step->before, 0, 0, cv::INTER_NEAREST);
      out = full;
    }
  }
  return out;
}

}  // namespace sgtrain::data
