#include "data/classes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::data {
namespace {

using Names = std::vector<std::string>;

void refuse_duplicates(const Names& names, std::string_view list, std::string_view where) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      throw core::InputError(std::string(list) + " names the class '" + name + "' twice", where);
    }
  }
}

std::unordered_map<std::string_view, std::int32_t> positions(const Names& names) {
  std::unordered_map<std::string_view, std::int32_t> out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.emplace(names[i], static_cast<std::int32_t>(i));
  return out;
}

/// The annotations use classes that the recipe does not list.
[[noreturn]] void fail_unlisted(const std::vector<std::size_t>& unlisted,
                                const SourceClasses& source, const Names& listed,
                                std::string_view where) {
  std::string text = "classes in the annotations and in all_classes_list differ";
  for (std::size_t i = 0; i < std::min<std::size_t>(unlisted.size(), 5); ++i) {
    const std::string& name = source.names[unlisted[i]];
    const std::string place = source.places.empty() ? "" : " (" + source.places[unlisted[i]] + ")";
    text += "\n  '" + name + "' is not listed" + core::did_you_mean(name, listed) + place;
  }
  text += "\n  in " + std::string(source.file) + ": " + show_classes(source.names) +
          "\n  all_classes_list: " + show_classes(listed);
  const bool subset = std::all_of(listed.begin(), listed.end(), [&](const std::string& name) {
    return std::find(source.names.begin(), source.names.end(), name) != source.names.end();
  });
  throw core::InputError(text, where,
                         subset ? "to train on some classes only, list all of them in "
                                  "all_classes_list and the wanted ones in class_inclusion_list"
                                : "list the classes as the annotations spell them");
}

/// Output labels among `listed`, by name.
std::vector<std::int32_t> place(const SourceClasses& source, const Names& listed,
                                std::string_view where, std::vector<std::string>& warnings) {
  const auto where_listed = positions(listed);
  std::vector<std::int32_t> out(source.names.size(), -1);
  std::vector<bool> used(listed.size(), false);
  std::vector<std::size_t> unlisted;
  for (std::size_t i = 0; i < source.names.size(); ++i) {
    if (!source.ignored.empty() && source.ignored[i]) continue;
    const auto found = where_listed.find(source.names[i]);
    if (found == where_listed.end()) {
      unlisted.push_back(i);
      continue;
    }
    out[i] = found->second;
    used[static_cast<std::size_t>(found->second)] = true;
  }
  if (!unlisted.empty()) fail_unlisted(unlisted, source, listed, where);
  Names unused;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (!used[i]) unused.push_back(listed[i]);
  }
  if (!unused.empty()) {
    warnings.push_back("listed classes that " + std::string(source.file) +
                       " does not have: " + show_classes(unused));
  }
  return out;
}

}  // namespace

std::string show_classes(const Names& names) {
  constexpr std::size_t kMost = 100;
  const Names some(names.begin(),
                   names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
  const std::string rest =
      names.size() > kMost ? ", … " + std::to_string(names.size() - kMost) + " more" : "";
  return "[" + core::join(some) + rest + "]";
}

ClassMap map_classes(const SourceClasses& source, const ClassSelection& selection,
                     std::string_view where, std::vector<std::string>& warnings) {
  ClassMap map;
  if (selection.all_classes_list.empty()) {
    map.to_output.assign(source.names.size(), -1);
    for (std::size_t i = 0; i < source.names.size(); ++i) {
      if (!source.ignored.empty() && source.ignored[i]) continue;
      map.to_output[i] = static_cast<std::int32_t>(map.names.size());
      map.names.push_back(source.names[i]);
    }
  } else {
    refuse_duplicates(selection.all_classes_list, "all_classes_list", where);
    map.names = selection.all_classes_list;
    map.to_output = place(source, map.names, where, warnings);
  }
  if (!selection.class_inclusion_list) return map;

  const Names& included = *selection.class_inclusion_list;
  refuse_duplicates(included, "class_inclusion_list", where);
  const auto known = positions(map.names);
  for (const std::string& name : included) {
    if (known.find(name) != known.end()) continue;
    throw core::InputError("class_inclusion_list names '" + name + "', which is not a class of " +
                               std::string(source.file) + core::did_you_mean(name, map.names) +
                               "\n  classes: " + show_classes(map.names),
                           where);
  }
  const auto kept = positions(included);
  for (std::int32_t& label : map.to_output) {
    if (label < 0) continue;
    const auto found = kept.find(map.names[static_cast<std::size_t>(label)]);
    label = found == kept.end() ? -1 : found->second;
  }
  map.names = included;
  return map;
}

}  // namespace sgtrain::data
