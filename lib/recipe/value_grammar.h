// The value language of command-line overrides and of resolver arguments: Hydra's and OmegaConf's
// element grammar. `[1, {a: b}]`, `'quoted'`, `1e-3`, `null`, `true`, `a\,b`, `${other.key}`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

/// Position of the end of the interpolation that starts at `at` ("${…}", nested ones and quotes
/// respected), one past its brace; npos when it is not closed.
std::size_t end_of_interpolation(std::string_view text, std::size_t at);

/// Splits at commas that stand outside quotes, brackets, braces and interpolations.
std::vector<std::string> split_arguments(std::string_view text);

/// One element. Texts keep their interpolations for the resolver. Unquoted booleans are `true` and
/// `false` only (any case), as in Hydra: `Off` on the command line is a text.
/// Throws InputError with what is wrong (no place: the caller knows it).
core::TreePtr parse_value(std::string_view text, const core::Mark& mark);

/// Alternatives of a sweep: `a,b,c`, `choice(a,b)`, `range(1,4)`; one entry when it is none.
std::vector<core::TreePtr> parse_alternatives(std::string_view text, const core::Mark& mark);

}  // namespace sgtrain::recipe
