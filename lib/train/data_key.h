// The short key `data`: one path says data set class, folders, number of classes and names.
#pragma once

#include "core/node.h"

namespace sgtrain::train {

/// Acts on a composed, not yet interpolated recipe whose top-level key `data` names
///   - a data.yaml (Ultralytics) or a folder that holds one,
///   - a pair [train.json, val.json] of COCO files, or a folder with annotations/*train*.json,
///   - a Pascal VOC folder (JPEGImages, Annotations, ImageSets/Main/{train,val}.txt),
///   - a folder with train/ and val/ (or valid/, test/) of class folders.
/// Sets data set class, files and names of the train and validation set, and the number of classes
/// of model, loss and metrics; transforms and sizes stay the recipe's. The key is then removed.
/// Mistakes become problems at the key.
void apply_data_key(const core::TreePtr& root, core::Problems& problems);

}  // namespace sgtrain::train
