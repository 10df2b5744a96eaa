// The short keys: those of SuperGradients' variable_setup (lr, batch_size, val_batch_size, ema,
// epochs, resume, num_workers) and ours (model, imgsz, batch, workers, seed, patience, mosaic,
// optimizer, pretrained, name, project). They act after composition, so that they win over every
// file.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/node.h"
#include "recipe/overrides.h"
#include "recipe/search_path.h"

namespace sgtrain::recipe {

/// Top-level keys that may be given on the command line without `+` although no file has them.
std::span<const std::string> free_keys();

/// `model=name` also chooses the group file arch_params/<name>_arch_params when there is one.
void expand_model(std::vector<Override>& overrides, const SearchPath& files);

/// Applies the short keys to the composed, not yet interpolated tree. A short key of
/// SuperGradients that is null takes the value of its long key; a long key given on the command
/// line (`overridden`) wins over a short key from a file. Our own short keys are removed, so that
/// a written recipe names everything by its canonical key; one that an interpolation names (or
/// `variables` lists) is a variable of the recipe and left alone, and so is a map; `data, freeze,
/// cache, fraction, close_mosaic` stay for those who know the data.
void apply_short_keys(const core::TreePtr& root, const std::set<std::string>& overridden,
                      const std::set<std::string>& variables, core::Problems& problems);

}  // namespace sgtrain::recipe
