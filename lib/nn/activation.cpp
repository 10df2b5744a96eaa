#include "nn/activation.h"

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::nn {
namespace {

constexpr std::array<std::pair<std::string_view, Act>, 15> kNames{
    {{"relu", Act::kRelu},
     {"relu6", Act::kRelu6},
     {"leaky_relu", Act::kLeakyRelu},
     {"silu", Act::kSilu},
     {"swish", Act::kSilu},
     {"hardswish", Act::kHardswish},
     {"hardsigmoid", Act::kHardsigmoid},
     {"gelu", Act::kGelu},
     {"mish", Act::kMish},
     {"sigmoid", Act::kSigmoid},
     {"tanh", Act::kTanh},
     {"elu", Act::kElu},
     {"identity", Act::kIdentity},
     {"linear", Act::kIdentity},
     {"none", Act::kIdentity}}};

std::optional<Act> find(std::string_view name) {
  const std::string wanted = core::fuzzy_key(name);
  for (const auto& [known, act] : kNames) {
    if (core::fuzzy_key(known) == wanted) return act;
  }
  return std::nullopt;
}

std::string unknown(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [text, act] : kNames) known.emplace_back(text);
  return "unknown activation '" + std::string(name) + "'" + core::did_you_mean(name, known) +
         " (known: " + core::join(known) + ")";
}

}  // namespace

Act activation_from_name(std::string_view name) {
  const auto act = find(name);
  if (!act) throw core::InputError(unknown(name));
  return *act;
}

Act read_activation(core::Node& node, std::string_view key, std::string_view fallback) {
  const std::string name = node.get_or<std::string>(key, std::string(fallback));
  const auto act = find(name);
  if (!act) node.problem(key, unknown(name));
  return act.value_or(Act::kRelu);
}

at::Tensor activate(Act act, const at::Tensor& x, bool in_place) {
  at::Tensor target = x;  // shares storage: only the in-place functions write to it
  switch (act) {
    case Act::kIdentity:
      return x;
    case Act::kRelu:
      return in_place ? at::relu_(target) : at::relu(x);
    case Act::kRelu6:
      return in_place ? at::hardtanh_(target, 0, 6) : at::hardtanh(x, 0, 6);
    case Act::kLeakyRelu:
      return in_place ? at::leaky_relu_(target, 0.01) : at::leaky_relu(x, 0.01);
    case Act::kSilu:
      return at::silu(x);
    case Act::kHardswish:
      return at::hardswish(x);
    case Act::kHardsigmoid:
      return at::hardsigmoid(x);
    case Act::kGelu:
      return at::gelu(x);
    case Act::kMish:
      return at::mish(x);
    case Act::kSigmoid:
      return at::sigmoid(x);
    case Act::kTanh:
      return at::tanh(x);
    case Act::kElu:
      return at::elu(x);
  }
  throw core::Error("activation without implementation");
}

}  // namespace sgtrain::nn
