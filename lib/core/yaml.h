// Reads YAML into the recipe tree: every value knows file and line, scalars become booleans,
// integers, floats and texts exactly as OmegaConf 2.3 over PyYAML 6 (YAML 1.1) decides:
// `Off` and `yes` are booleans, `0x10` and `1:30` integers, `1e-6` a float, dates texts,
// `???` a missing value. Anchors, aliases and `<<` merges are expanded within the limits below.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/node.h"

namespace sgtrain::core {

/// What a YAML file may cost. Beyond it the file is refused (alias bombs, endless nesting).
struct YamlLimits {
  std::size_t bytes = 8u << 20;  // of the file
  std::size_t nodes = 200'000;   // after expansion of aliases
  std::size_t depth = 64;        // of nested lists and maps
};

/// Parses one document. `name` is the file name that marks and errors show. An empty document is
/// a null tree. Keys are kept as written. Throws InputError (syntax, duplicate keys, limits).
TreePtr parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits = {});

/// The same, but duplicate keys are added to `problems`, so that they are listed with others.
TreePtr parse_yaml(std::string_view text, const std::string& name, Problems& problems,
                   const YamlLimits& limits = {});

/// The same for a file. Throws InputError, also when the file cannot be read.
TreePtr load_yaml(const std::filesystem::path& file, const YamlLimits& limits = {});
/// `name`: how marks and errors call the file.
TreePtr load_yaml(const std::filesystem::path& file, const std::string& name,
                  const YamlLimits& limits = {});

/// Type of a plain (unquoted) scalar by the rules above.
TreePtr plain_scalar(std::string_view text, Mark mark = {});

/// The text of a file, at most `bytes` of it. Throws InputError.
std::string read_text(const std::filesystem::path& file, std::size_t bytes);

}  // namespace sgtrain::core
