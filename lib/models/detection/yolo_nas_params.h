// Parameters of YOLO-NAS, as the reference's arch_params trees give them or by simple keys.
#pragma once

#include <string>
#include <vector>

#include "core/node.h"
#include "models/common_params.h"
#include "nn/activation.h"

namespace sgtrain::models::yolo_nas {

/// A CSP layer of a stage: `blocks` bottlenecks of `hidden` channels.
struct CspParams {
  int blocks = 1;
  int hidden = 0;                       // 0: half the output channels
  bool concat_intermediates = false;    // every bottleneck's output goes to the last convolution
  std::vector<double> drop_path_rates;  // one per bottleneck; empty: none
  double dropout_rate = 0.0;            // of whole channels, before the last convolution
};

struct StageParams {  // backbone: YoloNASStage
  int out = 0;
  int stride = 2;
  nn::Act act = nn::Act::kRelu;
  CspParams csp;
};

struct NeckStageParams {  // YoloNASUpStage, YoloNASDownStage
  int out = 0;
  nn::Act act = nn::Act::kRelu;
  bool reduce_channels = true;  // up stages: 1x1 convolutions before and after the concatenation
  CspParams csp;
};

struct HeadParams {               // YoloNASDFLHead
  int inter_channels = 0;         // after the width multiplier
  int first_conv_group_size = 0;  // 0: no extra convolution, -1: not grouped
  int stride = 8;
  double cls_dropout_rate = 0.0, reg_dropout_rate = 0.0;
};

struct Params {
  CommonParams common;
  int stem_out = 48, stem_stride = 2;
  std::vector<StageParams> stages;
  int context_out = 768;
  nn::Act context_act = nn::Act::kRelu;
  std::vector<int> context_kernels{5, 9, 13};
  std::vector<std::string> out_layers{"stage1", "stage2", "stage3", "context_module"};
  NeckStageParams neck1, neck2, neck3, neck4;
  std::vector<HeadParams> heads;
  int reg_max = 16;
  double grid_cell_scale = 5.0, grid_cell_offset = 0.5;

  /// @param variant 's', 'm' or 'l': the defaults
  static Params from(core::Node& n, char variant);
};

}  // namespace sgtrain::models::yolo_nas
