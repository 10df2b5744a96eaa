#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "models/build.h"

namespace sgtrain::models {
namespace {

using tensor::StateDict;
using tensor::TensorRef;

constexpr std::array<std::string_view, 4> kPrefixes{"module.", "_orig_mod.", "net.", "model."};
constexpr std::size_t kNamesShown = 5;

std::string some_of(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  std::string out = core::join(std::span(names.data(), shown));
  if (shown < names.size()) out += fmt::format(", … ({} in all)", names.size());
  return out;
}

std::string shape_of(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const auto size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return "[" + core::join(sizes) + "]";
}

/// A scalar and a vector of one element are the same entry (old num_batches_tracked, alpha).
bool fits(const at::Tensor& from, const at::Tensor& to) {
  return from.sizes() == to.sizes() ||
         (from.numel() == 1 && to.numel() == 1 && from.dim() <= 1 && to.dim() <= 1);
}

void copy(const at::Tensor& from, at::Tensor& to) {
  to.copy_(from.view_as(to));
}

std::size_t count_matches(const StateDict& state, const std::unordered_set<std::string>& names,
                          std::string_view prefix) {
  return static_cast<std::size_t>(std::count_if(state.begin(), state.end(), [&](const auto& entry) {
    if (!entry.first.starts_with(prefix)) return false;
    return names.count(entry.first.substr(prefix.size())) > 0;
  }));
}

/// Removes known prefixes as long as more names of the file are then names of the model.
std::string strip_prefixes(StateDict& state, const std::unordered_set<std::string>& names) {
  std::string stripped;
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : kPrefixes) {
      const bool all =
          !state.empty() && std::all_of(state.begin(), state.end(), [&](const auto& entry) {
            return entry.first.size() > prefix.size() && entry.first.starts_with(prefix);
          });
      const std::size_t now = count_matches(state, names, "");
      if (count_matches(state, names, prefix) <= now && !(all && now == 0)) continue;
      for (auto& [name, value] : state) {
        if (name.starts_with(prefix)) name.erase(0, prefix.size());
      }
      stripped += prefix;
      again = true;
      break;
    }
  }
  return stripped;
}

/// Of a distillation's checkpoint the student, for a model that is no such pair.
std::string take_student(StateDict& state, const std::unordered_set<std::string>& names) {
  constexpr std::string_view kStudent = "student.", kTeacher = "teacher.";
  const auto any = [](const auto& list, auto name_of, std::string_view prefix) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& entry) { return name_of(entry).starts_with(prefix); });
  };
  const auto first = [](const auto& entry) -> const std::string& { return entry.first; };
  if (!any(state, first, kStudent) || !any(state, first, kTeacher) ||
      any(
          names, [](const std::string& name) -> const std::string& { return name; }, kStudent)) {
    return {};
  }
  std::erase_if(state, [&](const auto& entry) { return !entry.first.starts_with(kStudent); });
  for (auto& [name, value] : state) name.erase(0, kStudent.size());
  return std::string(kStudent);
}

/// How the file and the model differ, by name.
struct Differences {
  std::vector<std::string> missing, unexpected, shapes;
  bool none() const { return missing.empty() && unexpected.empty() && shapes.empty(); }
};

class Loader {
 public:
  Loader(tensor::Module& module, const StateDict& state, std::string where)
      : refs_(module.state()), state_(state), where_(std::move(where)) {
    std::unordered_set<std::string> names;
    for (const TensorRef& ref : refs_) names.insert(ref.name);
    report_.stripped_prefix = strip_prefixes(state_, names);
    report_.stripped_prefix += take_student(state_, names);
    for (const auto& [name, value] : state_) by_name_.emplace(name, &value);
    compare(names);
  }

  LoadReport run(StrictLoad strict) {
    const at::NoGradGuard no_grad;
    switch (strict) {
      case StrictLoad::kOn:
        if (!differences_.none()) fail();
        break;
      case StrictLoad::kOff:
        if (!differences_.shapes.empty()) fail();
        break;
      case StrictLoad::kNoKeyMatching:
        if (!differences_.none()) return by_order();
        break;
      case StrictLoad::kKeyMatching:
        break;
    }
    return by_name();
  }

 private:
  void compare(const std::unordered_set<std::string>& names) {
    for (const TensorRef& ref : refs_) {
      const auto found = by_name_.find(ref.name);
      if (found == by_name_.end()) {
        differences_.missing.push_back(ref.name);
      } else if (!fits(*found->second, *ref.tensor)) {
        differences_.shapes.push_back(fmt::format("{} ({} in the file, {} in the model)", ref.name,
                                                  shape_of(*found->second), shape_of(*ref.tensor)));
      }
    }
    for (const auto& [name, value] : state_) {
      if (names.count(name) == 0) differences_.unexpected.push_back(name);
    }
  }

  LoadReport by_name() {
    std::unordered_set<std::string> used;
    for (TensorRef& ref : refs_) {
      const auto found = by_name_.find(ref.name);
      if (found == by_name_.end() || !fits(*found->second, *ref.tensor)) {
        report_.missing.push_back(ref.name);
        continue;
      }
      copy(*found->second, *ref.tensor);
      used.insert(ref.name);
      ++report_.matched;
    }
    for (const auto& [name, value] : state_) {
      if (used.count(name) == 0) report_.ignored.push_back(name);
    }
    if (report_.matched == 0) fail();
    return report_;
  }

  LoadReport by_order() {
    if (state_.size() != refs_.size()) fail();
    for (std::size_t i = 0; i < refs_.size(); ++i) {
      if (!fits(state_[i].second, *refs_[i].tensor)) fail();
    }
    for (std::size_t i = 0; i < refs_.size(); ++i) copy(state_[i].second, *refs_[i].tensor);
    report_.matched = refs_.size();
    report_.by_order = true;
    return report_;
  }

  [[noreturn]] void fail() const {
    std::string text = fmt::format(
        "the weights do not fit the model: {} of its {} entries are in the file",
        refs_.size() - differences_.missing.size() - differences_.shapes.size(), refs_.size());
    if (!differences_.missing.empty()) text += "; missing: " + some_of(differences_.missing);
    if (!differences_.unexpected.empty())
      text += "; not of this model: " + some_of(differences_.unexpected);
    if (!differences_.shapes.empty()) text += "; other shapes: " + some_of(differences_.shapes);
    throw core::InputError(
        text, where_,
        "check architecture and arch_params; strict_load: key_matching takes what fits");
  }

  std::vector<TensorRef> refs_;
  StateDict state_;
  std::string where_;
  std::unordered_map<std::string, const at::Tensor*> by_name_;
  Differences differences_;
  LoadReport report_;
};

}  // namespace

std::optional<StrictLoad> find_strict_load(std::string_view name) {
  const std::string key = core::fuzzy_key(name);
  if (key == "on" || key == "true") return StrictLoad::kOn;
  if (key == "off" || key == "false") return StrictLoad::kOff;
  if (key == "nokeymatching") return StrictLoad::kNoKeyMatching;
  if (key == "keymatching") return StrictLoad::kKeyMatching;
  return std::nullopt;
}

StrictLoad strict_load_from(std::string_view name) {
  const auto found = find_strict_load(name);
  if (found) return *found;
  const std::array<std::string, 4> known{"on", "off", "no_key_matching", "key_matching"};
  throw core::InputError(fmt::format("unknown strict_load '{}'{} (known: {})", name,
                                     core::did_you_mean(name, known), core::join(known)));
}

std::string LoadReport::summary() const {
  std::string out = fmt::format("{} entries loaded", matched);
  if (by_order) out += " by order, as names differ";
  if (!stripped_prefix.empty()) out += fmt::format(" (prefix '{}' removed)", stripped_prefix);
  out += fmt::format(", {} of the model left as they were, {} of the file ignored", missing.size(),
                     ignored.size());
  if (!missing.empty()) out += "; left: " + some_of(missing);
  if (!ignored.empty()) out += "; ignored: " + some_of(ignored);
  return out;
}

LoadReport load_state(tensor::Module& module, const StateDict& state, StrictLoad strict,
                      const std::string& where) {
  return Loader(module, state, where).run(strict);
}

}  // namespace sgtrain::models
