#include "data/dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/classes.h"

namespace sgtrain::data {

std::string_view task_name(Task task) {
  switch (task) {
    case Task::kClassification:
      return "classification";
    case Task::kDetection:
      return "detection";
    case Task::kSegmentation:
      return "segmentation";
    case Task::kPose:
      return "pose";
  }
  return "?";
}

Dataset::Registry& Dataset::registry() {
  static Registry registry("data set");
  return registry;
}

std::int64_t Dataset::num_classes() const {
  if (!class_names().empty()) return static_cast<std::int64_t>(class_names().size());
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < size(); ++i) {
    const Annotation one = annotation(i);
    most = std::max<std::int64_t>(most, std::int64_t{one.label} + 1);
    for (const Box& box : one.boxes)
      most = std::max<std::int64_t>(most, std::int64_t{box.label} + 1);
  }
  return most;
}

void check_num_classes(const Dataset& dataset, std::int64_t num_classes, const std::string& where) {
  std::vector<std::string> offenders;
  std::int64_t count = 0, lowest = INT64_MAX, highest = -1;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const Annotation one = dataset.annotation(i);
    const auto judge = [&](std::int32_t label) {
      lowest = std::min<std::int64_t>(lowest, label);
      highest = std::max<std::int64_t>(highest, label);
      if (label >= 0 && label < num_classes) return;
      ++count;
      if (offenders.size() >= Report::kKeep) return;
      offenders.push_back(fmt::format("{}: class {}", dataset.image_path(i), label));
    };
    if (dataset.task() == Task::kClassification) judge(one.label);
    for (const Box& box : one.boxes) judge(box.label);
  }
  if (count == 0) return;
  std::string text =
      fmt::format("{} annotations have a class outside of num_classes={} (ids 0..{})", count,
                  num_classes, num_classes - 1);
  if (lowest == 1 && highest == num_classes) text += "; the ids look 1-based";
  for (const std::string& offender : offenders) text += "\n  " + offender;
  if (!dataset.class_names().empty()) {
    text += fmt::format("\n  the data set has {} classes: {}", dataset.class_names().size(),
                        show_classes(dataset.class_names()));
  }
  throw core::InputError(text, where, "set num_classes to the number of classes of the data set");
}

void check_class_names(const std::vector<std::string>& wanted, const Dataset& dataset,
                       const std::string& where) {
  const auto& own = dataset.class_names();
  if (own.empty() || wanted.empty() || wanted == own) return;
  std::string text = "class_names of the recipe and the classes of the data set differ";
  bool same_set = wanted.size() == own.size();
  for (const std::string& name : wanted) {
    if (std::find(own.begin(), own.end(), name) != own.end()) continue;
    same_set = false;
    text += "\n  '" + name + "' is not in the data set" + core::did_you_mean(name, own);
  }
  for (const std::string& name : own) {
    if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) continue;
    same_set = false;
    text += "\n  '" + name + "' is not in class_names";
  }
  if (same_set) text += " in their order";
  text += "\n  recipe:   " + show_classes(wanted) + "\n  data set: " + show_classes(own);
  throw core::InputError(text, where,
                         "list the data set's classes in its order, remove class_names, or give "
                         "the data set this list as all_classes_list");
}

void check_same_classes(const Dataset& train, const Dataset& valid) {
  const auto& a = train.class_names();
  const auto& b = valid.class_names();
  if (a == b || a.empty() || b.empty()) return;
  throw core::InputError(
      "training and validation set do not have the same classes in the same order\n"
      "  training:   " +
          show_classes(a) + "\n  validation: " + show_classes(b),
      {},
      "list them in all_classes_list (classes, for YOLO folders) of both: "
      "annotations are then mapped by name");
}

}  // namespace sgtrain::data
