// Class lists: what a data set's file names, what the recipe names, and how the one maps to the
// other. Always by name, never by position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::data {

struct ClassMap {
  std::vector<std::string> names;       // output label → name
  std::vector<std::int32_t> to_output;  // source label → output label; -1: left out
};

/// What the recipe says about classes.
struct ClassSelection {
  std::vector<std::string> all_classes_list;  // empty: the file's own
  std::optional<std::vector<std::string>> class_inclusion_list;
};

/// Classes as a data set's files name them.
struct SourceClasses {
  const std::vector<std::string>& names;   // source label → name
  const std::vector<bool>& ignored;        // empty, or per label: class_ids_to_ignore names it
  const std::vector<std::string>& places;  // empty, or "file:line" where each name occurs first
  std::string_view file;                   // where the names come from, for messages
};

/// @param warnings gets a line when listed classes do not occur in the file
/// Errors: core::InputError when a name of the file is not listed (both lists, the nearest right
/// name), when a list names a class twice, or when the inclusion list names an unknown class.
ClassMap map_classes(const SourceClasses& source, const ClassSelection& selection,
                     std::string_view where, std::vector<std::string>& warnings);

/// "[a, b, c]", cut after 100 names.
std::string show_classes(const std::vector<std::string>& names);

}  // namespace sgtrain::data
