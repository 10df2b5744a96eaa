// The functions of `${name:arguments}`: SuperGradients' own and OmegaConf's `oc.*`.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

/// A resolver could not work with its arguments; the text says why.
class ResolverError : public std::exception {
 public:
  explicit ResolverError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

using Resolver = std::function<core::TreePtr(const std::vector<core::TreePtr>& arguments,
                                             const core::Mark& mark)>;

/// The resolver of that name, nullptr when there is none. Those that look into the recipe itself
/// (`oc.select`, `oc.dict.*`, `oc.deprecated`) belong to the interpolator.
const Resolver* find_resolver(std::string_view name);
/// Names of all, sorted, for messages.
std::vector<std::string> resolver_names();

/// A value inside a longer text, as Python's str() writes it ("True", "None", "1e-05").
std::string python_text(const core::Tree& value);

}  // namespace sgtrain::recipe
