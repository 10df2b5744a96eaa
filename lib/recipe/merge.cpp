#include "recipe/merge.h"

#include "core/text.h"
#include "recipe/interpolation.h"

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

TreePtr step(const Tree& tree, const std::string& key) {
  if (tree.is_map()) return tree.find(key);
  return tree.is_list() ? tree.find_path(key) : nullptr;
}

/// What an interpolation of a map or list names, interpolations inside kept; nullptr otherwise.
TreePtr named_container(const TreePtr& root, const std::vector<std::string>& path,
                        const Tree& value) {
  if (value.kind != Tree::Kind::kString || !value.text.starts_with("${")) return nullptr;
  core::Problems ignored;  // a wrong interpolation is reported when the recipe is resolved
  const TreePtr resolved = Interpolator(root->clone(), ignored).resolve_at(core::join(path, "."));
  return resolved && !resolved->is_scalar() ? resolved->clone() : nullptr;
}

void merge_map(const TreePtr& root, std::vector<std::string>& path, Tree& into, const Tree& source,
               core::Problems& problems) {
  for (const auto& [key, value] : source.map) {
    TreePtr old = into.find(key);
    path.push_back(key);
    if (old && value->is_map()) {
      if (const TreePtr named = named_container(root, path, *old)) {
        into.set(key, named);
        old = named;
      }
    }
    if (old && !old->is_scalar() && !value->is_scalar() && old->kind != value->kind) {
      problems.add(value->mark.str(), core::join(path, "."),
                   std::string(kind_name(value->kind)) + " cannot be merged into " +
                       std::string(kind_name(old->kind)) + " (" + old->mark.str() + ")");
    } else if (old && old->is_map() && value->is_map()) {
      merge_map(root, path, *old, *value, problems);
    } else if (!old || value->kind != Tree::Kind::kMissing) {
      into.set(key, value->clone());
    }
    path.pop_back();
  }
}

}  // namespace

void merge_at(const TreePtr& root, const std::vector<std::string>& path, const Tree& source,
              core::Problems& problems) {
  TreePtr here = root;
  for (const std::string& key : path) {
    TreePtr next = here->find(key);
    if (!next || !next->is_map()) {
      next = Tree::make_map(source.mark);
      here->set(key, next);
    }
    here = next;
  }
  std::vector<std::string> where = path;
  merge_map(root, where, *here, source, problems);
}

TreePtr value_at(const TreePtr& root, const std::vector<std::string>& path) {
  TreePtr here = root;
  for (const std::string& key : path) {
    here = step(*here, key);
    if (!here) return nullptr;
  }
  return here;
}

}  // namespace sgtrain::recipe
