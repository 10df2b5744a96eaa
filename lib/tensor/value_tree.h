// Plain values of a checkpoint as a recipe tree and back: how preprocessing, class names and
// thresholds travel in `.pth` files.
#pragma once

#include <string>

#include "core/node.h"
#include "tensor/value.h"

namespace sgtrain::tensor {

/// Lists, tuples, dicts with string keys, and scalars. `where` (the file) marks every node.
/// @throws core::InputError for tensors and objects of Python classes
core::TreePtr tree_from_value(const Value& value, const std::string& where);
Value value_from_tree(const core::Tree& tree);

}  // namespace sgtrain::tensor
