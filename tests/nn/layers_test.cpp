#include "nn/layers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

#include "core/error.h"
#include "nn/blocks.h"
#include "support/fill.h"
#include "support/golden.h"

namespace sgtrain {
namespace {

/// d = Σ y·g and its gradients for x, w.
std::vector<at::Tensor> gradients(const at::Tensor& y, const at::Tensor& g,
                                  const std::vector<at::Tensor>& leaves) {
  for (const at::Tensor& leaf : leaves) leaf.mutable_grad() = at::Tensor();
  (y * g).sum().backward();
  std::vector<at::Tensor> out;
  for (const at::Tensor& leaf : leaves) out.push_back(leaf.grad().clone());
  return out;
}

}  // namespace

TEST_CASE("the fill rule is the goldens' rule") {
  // Vectors of golden/rule_check.json.
  CHECK(support::fnv1a64("input") == 2214555572463777371ULL);
  CHECK(support::uniform(support::fnv1a64("input"), 123456) ==
        Approx(0.8664888143539429).epsilon(0));
  CHECK(support::uniform(support::fnv1a64("conv1.weight"), 0) ==
        Approx(0.5450749397277832).epsilon(0));
  CHECK(support::uniform(support::fnv1a64("heads.head1.cls_pred.bias"), 2) ==
        Approx(0.44346630573272705).epsilon(0));
}

// The strided form of these convolutions writes out of bounds in PyTorch 2.11's CPU backward.
TEST_CASE("strided 1x1 convolutions are right for 1 to 24 channels, float and bfloat16") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (int channels = 1; channels <= 24; ++channels) {
      for (const int stride : {2, 3}) {
        INFO(channels << " channels, stride " << stride << ", " << at::toString(type));
        const nn::ConvOptions options{.in = channels, .out = 7, .kernel = 1, .stride = stride};
        const at::Tensor exact_x = support::rule_input({2, channels, 9, 8}).to(at::kDouble);
        const at::Tensor exact_w =
            support::rule_input({7, channels, 1, 1}, "w").to(at::kDouble) - 0.5;
        const at::Tensor exact_b = support::rule_input({7}, "b").to(at::kDouble);
        const at::Tensor x =
            exact_x.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
        const at::Tensor w =
            exact_w.to(type).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
        const at::Tensor b = exact_b.to(type).requires_grad_();
        const at::Tensor y = nn::conv2d(x, w, b, options);

        // The definition, without any convolution: a product over channels at the sampled places.
        const at::Tensor leaf_x = x.detach().to(at::kDouble).contiguous().requires_grad_();
        const at::Tensor leaf_w = w.detach().to(at::kDouble).contiguous().requires_grad_();
        const at::Tensor leaf_b = b.detach().to(at::kDouble).requires_grad_();
        const at::Tensor sampled = leaf_x.slice(2, 0, 9, stride).slice(3, 0, 8, stride);
        const at::Tensor expected =
            at::einsum("bchw,oc->bohw", {sampled, leaf_w.flatten(1)}) + leaf_b.view({1, -1, 1, 1});

        const double tolerance = type == at::kFloat ? 1e-5 : 2e-2;
        REQUIRE(support::relative_to_max(y, expected) <= tolerance);
        const at::Tensor g = support::rule_input(expected.sizes(), "g").to(at::kDouble) - 0.5;
        const auto found = gradients(y, g.to(type), {x, w, b});
        const auto wanted =
            gradients(expected, g.to(type).to(at::kDouble), {leaf_x, leaf_w, leaf_b});
        for (std::size_t i = 0; i < found.size(); ++i) {
          REQUIRE(support::relative_to_max(found[i], wanted[i]) <= tolerance);
        }
      }
    }
  }
}

TEST_CASE("initial weights have PyTorch's distribution") {
  at::manual_seed(1);
  nn::Conv2d conv({.in = 64, .out = 128, .kernel = 3, .padding = 1, .groups = 2});
  const double bound = 1.0 / std::sqrt(32 * 9);  // fan-in of a group
  CHECK(conv.weight.abs().max().item<double>() <= bound);
  CHECK(conv.weight.abs().max().item<double>() > 0.99 * bound);
  CHECK(conv.weight.mean().item<double>() == Approx(0.0).margin(0.01 * bound));
  CHECK(conv.weight.std().item<double>() == Approx(bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(conv.bias.abs().max().item<double>() <= bound);
  nn::Linear linear(300, 200);
  CHECK(linear.weight.std().item<double>() == Approx(1.0 / std::sqrt(300 * 3.0)).epsilon(0.02));
  nn::ConvTranspose2d up(8, 32, 2, 2);  // fan-in of a transposed convolution is out * k * k
  CHECK(up.weight.abs().max().item<double>() == Approx(1.0 / std::sqrt(32 * 4)).epsilon(0.02));
}

TEST_CASE("replaced channels keep what can be kept") {
  at::manual_seed(2);
  nn::Conv2d conv({.in = 3, .out = 64, .kernel = 3});
  const at::Tensor old = conv.weight.detach().clone();
  conv.replace_inputs(2);
  CHECK(at::equal(conv.weight, old.narrow(1, 0, 2)));
  conv.replace_inputs(5);
  CHECK(at::equal(conv.weight.narrow(1, 0, 2), old.narrow(1, 0, 2)));
  CHECK(conv.weight.narrow(1, 2, 3).std().item<double>() ==
        Approx(old.std().item<double>()).epsilon(0.1));
  CHECK(conv.weight.requires_grad());
  conv.replace_outputs(300);
  CHECK(conv.weight.sizes() == at::IntArrayRef({300, 5, 3, 3}));
  CHECK(conv.bias.numel() == 300);
  CHECK(conv.options().in == 5);
  nn::Conv2d grouped({.in = 4, .out = 4, .kernel = 1, .groups = 2});
  CHECK_THROWS_AS(grouped.replace_inputs(3), core::InputError);
}

TEST_CASE("batch norm refuses one value per channel and counts batches") {
  nn::BatchNorm2d norm(3);
  CHECK_THROWS_AS(norm.forward(at::ones({1, 3, 1, 1})), core::Error);
  norm.forward(at::randn({2, 3, 4, 4}));
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
  norm.eval();
  norm.forward(at::ones({1, 3, 1, 1}));
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
}

TEST_CASE("dropping paths and elements") {
  at::manual_seed(3);
  const at::Tensor x = at::ones({1000, 4, 2, 2});
  nn::DropPath path(0.25);
  const at::Tensor y = path.forward(x);
  std::set<double> values;
  for (std::int64_t i = 0; i < y.size(0); ++i) {
    CHECK(y[i].max().item<double>() == y[i].min().item<double>());  // whole samples
    values.insert(std::round(y[i][0][0][0].item<double>() * 1e5));
  }
  CHECK(values == std::set<double>{0.0, std::round(1e5 / 0.75)});
  CHECK(y.mean().item<double>() == Approx(1.0).epsilon(0.06));
  nn::Dropout2d channels(0.5);
  const at::Tensor z = channels.forward(x);
  CHECK(at::equal(z.amax({2, 3}), z.amin({2, 3})));
  for (tensor::Module* module :
       {static_cast<tensor::Module*>(&path), static_cast<tensor::Module*>(&channels)}) {
    module->eval();
    CHECK(at::equal(module->forward(x), x));
  }
}

TEST_CASE("activations by name") {
  const at::Tensor x = at::linspace(-4, 8, 25);
  CHECK(nn::activation_from_name("ReLU") == nn::Act::kRelu);
  CHECK(nn::activation_from_name("SiLU") == nn::Act::kSilu);
  CHECK(nn::activation_from_name("leaky_relu") == nn::Act::kLeakyRelu);
  CHECK_THROWS_WITH(nn::activation_from_name("rleu"), Catch::Contains("relu"));
  CHECK(at::allclose(nn::activate(nn::Act::kRelu6, x), x.clamp(0, 6)));
  CHECK(at::allclose(nn::activate(nn::Act::kSilu, x), x * at::sigmoid(x)));
  CHECK(at::allclose(nn::activate(nn::Act::kMish, x), x * at::tanh(at::softplus(x))));
  CHECK(at::equal(nn::activate(nn::Act::kIdentity, x), x));
}

}  // namespace sgtrain
