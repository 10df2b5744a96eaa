// Keys of `arch_params` that several architecture families share, in all their spellings.
#pragma once

#include "core/node.h"

namespace sgtrain::models {

inline constexpr const char* kInputChannelsKeys =
    "in_channels|input_channels|channels_in|num_input_channels";
inline constexpr const char* kBackboneModeKeys = "backbone_mode|features_only";
inline constexpr const char* kDropPathKeys = "droppath_prob|drop_path_prob|drop_path";
inline constexpr int kMaxClasses = 1 << 20;
inline constexpr int kMaxChannels = 1 << 14;

struct CommonParams {
  int num_classes = 0;  // 0 only in backbone mode
  int in_channels = 3;
  bool backbone_mode = false;  // no head: the output is "features"
  double bn_eps = 0.0;         // 0: the architecture's own
  double bn_momentum = 0.0;

  static CommonParams from(core::Node& n) {
    CommonParams p;
    p.backbone_mode =
        n.get_or(kBackboneModeKeys, false).help("feature maps instead of the head's output");
    if (p.backbone_mode) {
      p.num_classes = n.get_or("num_classes", 0).in(0, kMaxClasses);
    } else {
      p.num_classes = n.get<int>("num_classes").in(1, kMaxClasses).help("outputs of the head");
    }
    p.in_channels =
        n.get_or(kInputChannelsKeys, 3).in(1, kMaxChannels).help("channels of the input");
    p.bn_eps = n.get_or("bn_eps", 0.0).in(0.0, 1.0).help("of every batch norm; 0: its own");
    p.bn_momentum =
        n.get_or("bn_momentum", 0.0).in(0.0, 1.0).help("of every batch norm; 0: its own");
    n.child("_convert_").read_all();  // Hydra's mark on parameter groups, without meaning here
    return p;
  }
};

}  // namespace sgtrain::models
