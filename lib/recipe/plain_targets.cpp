#include "recipe/plain_targets.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

constexpr double kMaxPoints = 100'000;

bool is_number(const TreePtr& tree) {
  return tree && (tree->kind == Tree::Kind::kInt || tree->kind == Tree::Kind::kFloat);
}

double number(const Tree& tree) {
  return tree.kind == Tree::Kind::kInt ? static_cast<double>(tree.integer) : tree.real;
}

/// The points start, start + step, … below stop, as numpy counts them; nullptr after a problem.
TreePtr arange(const Tree& call, const std::string& path, core::Problems& problems) {
  const TreePtr zero = Tree::of(std::int64_t{0}), one = Tree::of(std::int64_t{1});
  const TreePtr start = call.find("start") ? call.find("start") : zero;
  const TreePtr step = call.find("step") ? call.find("step") : one;
  const TreePtr stop = call.find("stop");
  for (const auto& [key, value] : call.map) {
    if (key == "start" || key == "stop" || key == "step" || key == "_target_" || key == "_convert_")
      continue;
    problems.add(value->mark.str(), path + "." + key,
                 "unknown key (numpy.arange takes start, stop, step)");
  }
  if (!is_number(start) || !is_number(step) || !is_number(stop)) {
    problems.add(call.mark.str(), path, "numpy.arange takes the numbers start, stop and step");
    return nullptr;
  }
  const double points = std::ceil((number(*stop) - number(*start)) / number(*step));
  if (!(points <= kMaxPoints)) {
    problems.add(call.mark.str(), path, "numpy.arange would have no end or too many points");
    return nullptr;
  }
  const bool whole = start->kind == Tree::Kind::kInt && step->kind == Tree::Kind::kInt &&
                     stop->kind == Tree::Kind::kInt;
  const TreePtr out = Tree::make_list(call.mark);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(points); ++i) {
    out->list.push_back(
        whole ? Tree::of(start->integer + i * step->integer, call.mark)
              : Tree::of(number(*start) + static_cast<double>(i) * number(*step), call.mark));
  }
  return out;
}

void replace_below(const TreePtr& node, const std::string& path, core::Problems& problems) {
  if (const TreePtr target = node->is_map() ? node->find("_target_") : nullptr) {
    const std::string& name = target->text;
    TreePtr value;
    if (name == "numpy.arange") value = arange(*node, path, problems);
    if (name.ends_with(".empty_list")) value = Tree::make_list(node->mark);
    if (name.ends_with(".Phase") && node->find("value")) value = node->find("value")->clone();
    if (value) {
      *node = *value->clone();
      return;
    }
  }
  for (std::size_t i = 0; i < node->list.size(); ++i) {
    replace_below(node->list[i], path + "." + std::to_string(i), problems);
  }
  for (const auto& [key, value] : node->map) {
    replace_below(value, path.empty() ? key : path + "." + key, problems);
  }
}

}  // namespace

void replace_plain_targets(const TreePtr& root, core::Problems& problems) {
  replace_below(root, {}, problems);
}

}  // namespace sgtrain::recipe
