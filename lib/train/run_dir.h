// The folder of a run: <ckpt_root_dir>/<experiment_name>/RUN_<date>_<time>_<µs>/ and a link
// `latest` beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sgtrain::train {

/// Refuses names that would leave their folder ("", "..", "a/b", control characters).
/// @throws core::InputError naming `key`
void check_name(const std::string& key, const std::string& name);

/// Makes a new run folder and points `latest` at it.
std::filesystem::path create_run_dir(const std::filesystem::path& root,
                                     const std::string& experiment);

/// The most recent run of an experiment that holds `checkpoint`; nullopt when there is none.
std::optional<std::filesystem::path> latest_run_dir(const std::filesystem::path& root,
                                                    const std::string& experiment,
                                                    const std::string& checkpoint);

/// The most recent run below a root, of any experiment (`sgtrain resume last`).
std::optional<std::filesystem::path> latest_run_anywhere(const std::filesystem::path& root,
                                                         const std::string& checkpoint);

}  // namespace sgtrain::train
