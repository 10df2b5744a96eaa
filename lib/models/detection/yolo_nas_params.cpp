#include "models/detection/yolo_nas_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/text.h"
#include "nn/layers.h"

namespace sgtrain::models::yolo_nas {
namespace {

constexpr int kMaxBlocks = 100;

// The three published variants (recipes/arch_params/yolo_nas_{s,m,l}_arch_params.yaml).
struct NeckNumbers {
  int out, blocks, hidden;
};
struct Variant {
  std::array<int, 4> hidden;
  std::array<bool, 4> concat;
  std::array<NeckNumbers, 4> neck;
  double head_width;
};
constexpr std::array<int, 4> kStageOut{96, 192, 384, 768};
constexpr std::array<int, 4> kStageBlocks{2, 3, 5, 2};
constexpr std::array<int, 3> kHeadChannels{128, 256, 512};
constexpr std::array<int, 3> kHeadStrides{8, 16, 32};

constexpr Variant kSmall{{32, 64, 96, 192},
                         {false, false, false, false},
                         {{{192, 2, 64}, {96, 2, 48}, {192, 2, 64}, {384, 2, 64}}},
                         0.5};
constexpr Variant kMedium{{64, 128, 256, 384},
                          {true, true, true, false},
                          {{{192, 2, 192}, {96, 3, 64}, {192, 2, 192}, {384, 3, 256}}},
                          0.75};
constexpr Variant kLarge{{96, 128, 256, 512},
                         {true, true, true, true},
                         {{{192, 4, 128}, {96, 4, 128}, {192, 4, 128}, {384, 4, 256}}},
                         1.0};

const Variant& variant_of(char name) {
  return name == 's' ? kSmall : name == 'm' ? kMedium : kLarge;
}

/// Parameters of the component at `key`, which must be called `name`; an empty node when absent.
core::Node component(core::Node& n, std::string_view key, std::string_view name) {
  const auto found = n.find_component(key);
  if (!found) return core::Node::empty();
  if (core::fuzzy_key(found->name) != core::fuzzy_key(name)) {
    n.problem(key, "unknown module '" + found->name + "' (known here: " + std::string(name) + ")");
    core::Node wrong = found->params;
    wrong.read_all();
    return core::Node::empty();
  }
  return found->params;
}

CspParams read_csp(core::Node& n, CspParams d, double depth_mult = 1.0) {
  d.blocks = n.get_or("num_blocks", d.blocks).in(1, kMaxBlocks);
  if (d.blocks > 1) d.blocks = std::max(1, static_cast<int>(std::nearbyint(d.blocks * depth_mult)));
  d.hidden = n.get_or("hidden_channels", d.hidden).in(0, kMaxChannels);
  d.concat_intermediates = n.get_or("concat_intermediates", d.concat_intermediates);
  d.dropout_rate = n.get_or("dropout_rate", d.dropout_rate).in(0.0, 0.999);
  if (d.drop_path_rates.size() != static_cast<std::size_t>(d.blocks)) {
    const double rate = d.drop_path_rates.empty() ? 0.0 : d.drop_path_rates.front();
    d.drop_path_rates.assign(static_cast<std::size_t>(d.blocks), rate);
  }
  d.drop_path_rates = n.get_or("drop_path_rates", d.drop_path_rates).in(0.0, 0.999);
  if (d.drop_path_rates.size() != static_cast<std::size_t>(d.blocks)) {
    n.problem("drop_path_rates",
              "must have one rate for each of the " + std::to_string(d.blocks) + " blocks");
  }
  return d;
}

StageParams read_stage(core::Node n, StageParams d) {
  d.out = n.get_or("out_channels", d.out).in(1, kMaxChannels);
  d.stride = n.get_or("stride", d.stride).in(1, 8);
  d.act = nn::read_activation(n, "activation_type", "relu");
  d.csp = read_csp(n, d.csp);
  return d;
}

NeckStageParams read_neck_stage(core::Node n, NeckStageParams d, bool up) {
  const int out = n.get_or("out_channels", d.out).in(1, kMaxChannels);
  const double width = n.get_or("width_mult", 1.0).in(1.0 / 64, 64);
  const double depth = n.get_or("depth_mult", 1.0).in(1.0 / 64, 64);
  d.out = nn::width_multiplier(out, width, 8);
  d.act = nn::read_activation(n, "activation_type", "relu");
  if (up) {
    d.reduce_channels = n.get_or("reduce_channels", d.reduce_channels);
    const std::string mode = n.get_or("upsample_mode", "conv_transpose");
    if (core::fuzzy_key(mode) != "convtranspose") {
      n.problem("upsample_mode", "unknown mode '" + mode + "' (known: conv_transpose)");
    }
  }
  d.csp = read_csp(n, d.csp, depth);
  return d;
}

HeadParams read_head(core::Node n, HeadParams d, int full_channels, double width) {
  const int channels = n.get_or("inter_channels", full_channels).in(1, kMaxChannels);
  const double mult = n.get_or("width_mult", width).in(1.0 / 64, 64);
  d.inter_channels = nn::width_multiplier(channels, mult, 8);
  d.first_conv_group_size = n.get_or("first_conv_group_size", 0).in(-1, kMaxChannels);
  if (d.first_conv_group_size > 0 && d.inter_channels % d.first_conv_group_size != 0) {
    n.problem("first_conv_group_size",
              "must divide the head's " + std::to_string(d.inter_channels) + " channels");
  }
  d.stride = n.get_or("stride", d.stride).in(1, 1024);
  d.cls_dropout_rate = n.get_or("cls_dropout_rate", d.cls_dropout_rate).in(0.0, 0.999);
  d.reg_dropout_rate = n.get_or("reg_dropout_rate", d.reg_dropout_rate).in(0.0, 0.999);
  n.child("num_classes").read_all();  // the one of the model counts
  n.child("reg_max").read_all();
  return d;
}

/// A list of components of fixed length, each read by `read(index, params)`.
template <class Read>
void read_list(core::Node& n, std::string_view key, std::string_view name, std::size_t length,
               const Read& read) {
  if (!n.has(key)) {
    for (std::size_t i = 0; i < length; ++i) read(i, core::Node::empty());
    return;
  }
  core::Node list = n.child(key);
  if (!list.is_list() || list.size() != length) {
    list.problem("expected a list of " + std::to_string(length) + " " + std::string(name));
    list.read_all();
    return;
  }
  for (std::size_t i = 0; i < length; ++i) {
    core::Node item = list.item(i);
    core::Component found = item.as_component();
    if (core::fuzzy_key(found.name) != core::fuzzy_key(name)) {
      item.problem("unknown module '" + found.name + "' (known here: " + std::string(name) + ")");
      found.params.read_all();
    } else {
      read(i, found.params);
    }
  }
}

void set_defaults(Params& p, const Variant& v, double drop_path, double dropout) {
  for (std::size_t i = 0; i < kStageOut.size(); ++i) {
    p.stages.push_back({.out = kStageOut.at(i),
                        .csp = {.blocks = kStageBlocks.at(i),
                                .hidden = v.hidden.at(i),
                                .concat_intermediates = v.concat.at(i),
                                .drop_path_rates = {drop_path}}});
  }
  std::size_t i = 0;
  for (NeckStageParams* neck : {&p.neck1, &p.neck2, &p.neck3, &p.neck4}) {
    const NeckNumbers& numbers = v.neck.at(i++);
    neck->out = numbers.out;
    neck->csp = {.blocks = numbers.blocks, .hidden = numbers.hidden, .drop_path_rates = {}};
  }
  for (const int stride : kHeadStrides) {
    p.heads.push_back({.stride = stride, .cls_dropout_rate = dropout, .reg_dropout_rate = dropout});
  }
}

void read_backbone(core::Node& n, Params& p) {
  core::Node backbone = component(n, "backbone", "NStageBackbone");
  core::Node stem = component(backbone, "stem", "YoloNASStem");
  p.stem_out = stem.get_or("out_channels", p.stem_out).in(1, kMaxChannels);
  p.stem_stride = stem.get_or("stride", p.stem_stride).in(1, 8);
  read_list(backbone, "stages", "YoloNASStage", p.stages.size(),
            [&](std::size_t i, core::Node node) { p.stages[i] = read_stage(node, p.stages[i]); });
  core::Node context = component(backbone, "context_module", "SPP");
  p.context_out = context.get_or("output_channels", p.context_out).in(1, kMaxChannels);
  p.context_act = nn::read_activation(context, "activation_type", "relu");
  p.context_kernels = context.get_or("k", p.context_kernels).in(1, 99);
  for (const int k : p.context_kernels) {
    if (k % 2 == 0) context.problem("k", "kernels must be odd, found " + std::to_string(k));
  }
  p.out_layers = backbone.get_or("out_layers", p.out_layers);
  const std::vector<std::string> known{"stem",   "stage1", "stage2",
                                       "stage3", "stage4", "context_module"};
  auto last = known.begin();  // features must come in the order in which the network makes them
  for (const std::string& layer : p.out_layers) {
    const auto place = std::find(last, known.end(), layer);
    if (place == known.end()) {
      backbone.problem("out_layers", "'" + layer + "' is unknown or out of order (order: " +
                                         core::join(known) + ")");
      break;
    }
    last = place + 1;
  }
  if (p.out_layers.size() != 4)
    backbone.problem("out_layers", "must name the four inputs of the neck");
}

void read_neck(core::Node& n, Params& p) {
  core::Node neck = component(n, "neck", "YoloNASPANNeckWithC2");
  p.neck1 = read_neck_stage(component(neck, "neck1", "YoloNASUpStage"), p.neck1, true);
  p.neck2 = read_neck_stage(component(neck, "neck2", "YoloNASUpStage"), p.neck2, true);
  p.neck3 = read_neck_stage(component(neck, "neck3", "YoloNASDownStage"), p.neck3, false);
  p.neck4 = read_neck_stage(component(neck, "neck4", "YoloNASDownStage"), p.neck4, false);
}

void read_heads(core::Node& n, Params& p, double width) {
  core::Node heads = component(n, "heads", "NDFLHeads");
  p.reg_max = heads.get_or("reg_max", p.reg_max).in(1, 256);
  p.grid_cell_scale = heads.get_or("grid_cell_scale", p.grid_cell_scale).above(0.0);
  p.grid_cell_offset = heads.get_or("grid_cell_offset", p.grid_cell_offset).in(0.0, 1.0);
  heads.child("num_classes").read_all();  // the model's own key counts
  heads.child("eval_size").read_all();  // anchors are cached for the last input size by themselves
  read_list(heads, "heads_list", "YoloNASDFLHead", p.heads.size(),
            [&](std::size_t i, core::Node node) {
              p.heads[i] = read_head(node, p.heads[i], kHeadChannels.at(i), width);
            });
}

}  // namespace

Params Params::from(core::Node& n, char variant) {
  const Variant& v = variant_of(variant);
  Params p;
  p.common = CommonParams::from(n);
  if (p.common.bn_eps == 0.0) p.common.bn_eps = 1e-3;
  if (p.common.bn_momentum == 0.0) p.common.bn_momentum = 0.03;
  n.child("inplace_act").read_all();  // activations are in place wherever that is safe
  const double drop_path =
      n.get_or(kDropPathKeys, 0.0).in(0.0, 0.999).help("of every bottleneck of the backbone");
  const double dropout = n.get_or("dropout_prob|dropout", 0.0)
                             .in(0.0, 0.999)
                             .help("of channels before the predictions");
  set_defaults(p, v, drop_path, dropout);
  read_backbone(n, p);
  read_neck(n, p);
  read_heads(n, p, v.head_width);
  return p;
}

}  // namespace sgtrain::models::yolo_nas
