// The fused operations against the same written with ATen's operations: values, gradients, running
// statistics, layouts, types, slices; and the loops of every instruction set against the plain
// ones.
#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "nn/blocks.h"
#include "nn/fused/concat.h"
#include "nn/fused/kernels.h"
#include "nn/fused/norm_act.h"
#include "nn/layers.h"
#include "support/fill.h"
#include "support/golden.h"
#include "tensor/device.h"

namespace sgtrain {
namespace {

using nn::Act;
constexpr auto kLast = at::MemoryFormat::ChannelsLast;

/// Turns the fused operations on or off for a scope.
class Fused {
 public:
  explicit Fused(bool on) { nn::fused::set_enabled(on); }
  ~Fused() { nn::fused::set_enabled(true); }
};

/// How a step is computed: in `type`, from numbers that `storage` can hold.
struct How {
  at::ScalarType type, storage;
  bool fused;
};

at::Tensor noise(at::IntArrayRef sizes, const std::string& name, at::ScalarType type) {
  return (support::rule_input(sizes, name).to(at::kDouble) * 4.0 - 1.7).to(type);
}
at::Tensor noise(at::IntArrayRef sizes, const std::string& name, const How& how) {
  return noise(sizes, name, how.storage).to(how.type);
}

at::Tensor leaf(const at::Tensor& value) {
  return value.clone().requires_grad_();
}

void fill_norm(nn::BatchNorm2d& norm, const std::string& name, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  for (const tensor::TensorRef& ref : norm.state()) {
    const at::Tensor value = support::rule_value(name + ref.name, *ref.tensor, 1.0);
    if (ref.tensor->is_floating_point()) ref.tensor->copy_(value);
  }
  if (type == at::kDouble) norm.to(type);
}

/// Outputs, gradients, running statistics.
struct Result {
  std::vector<at::Tensor> values;
  void add(const at::Tensor& t) { values.push_back(t.detach().to(at::kDouble)); }
  void add_norm(nn::BatchNorm2d& norm) {
    for (const at::Tensor& t :
         {norm.weight.grad(), norm.bias.grad(), norm.running_mean, norm.running_var})
      add(t);
    add(norm.num_batches_tracked);
  }
};

/// Σ|a - b| / Σ|b|: unlike the largest difference it bears the few elements whose rounding falls on
/// the other side of a kink.
double mean_error(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const double scale = b.abs().sum().item<double>();
  const double difference = (a - b).abs().sum().item<double>();
  return scale > 0 ? difference / scale : difference;
}

/// step(How) -> Result. In double the fused step equals the plain one; in other types it is as near
/// as the plain one to the same step in double.
template <class Step>
void compare(at::ScalarType type, const Step& step) {
  const Result exact = step(How{at::kDouble, type, false});
  const Result found = step(How{type, type, true});
  REQUIRE(found.values.size() == exact.values.size());
  if (type == at::kDouble) {
    for (std::size_t i = 0; i < exact.values.size(); ++i) {
      INFO("value " << i);
      CHECK(support::relative_to_max(found.values[i], exact.values[i]) <= 1e-11);
    }
    return;
  }
  const Result plain = step(How{type, type, false});
  const double floor = type == at::kFloat ? 2e-6 : 2e-2;
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    INFO("value " << i);
    CHECK(mean_error(found.values[i], exact.values[i]) <=
          1.5 * mean_error(plain.values[i], exact.values[i]) + floor);
  }
}

constexpr std::array kTypes{at::kDouble, at::kFloat, at::kBFloat16};

struct NormCase {
  int channels = 16;
  Act act = Act::kRelu;
  bool residual = false, training = true;
  std::string layout = "channels_last";  // or "slice": channels of a wider tensor
  int images = 3;
  bool mean_of_pixels = false;  // a gradient that is one number per channel, expanded
};

Result norm_step(const NormCase& c, const How& how) {
  const std::vector<std::int64_t> sizes{c.images, c.channels, 5, 7};
  nn::BatchNorm2d norm(c.channels, 1e-3, 0.3);
  fill_norm(norm, "norm.", how.type);
  norm.train(c.training);
  const auto in_layout = [&](const at::Tensor& t) {
    if (c.layout == "channels_last") return t.contiguous(kLast);
    const at::Tensor wide = at::constant_pad_nd(t, {0, 0, 0, 0, 2, 3}).contiguous(kLast);
    return wide.narrow(1, 2, c.channels);
  };
  const at::Tensor x = leaf(noise(sizes, "x", how)), r = leaf(noise(sizes, "r", how));
  const at::Tensor input = in_layout(x), residual = in_layout(r);
  const Fused fused(how.fused);
  const at::Tensor y =
      c.residual ? norm.forward_add_act(input, residual, c.act) : norm.forward_act(input, c.act);
  if (how.fused && nn::fused::supports(c.act))
    REQUIRE(y.grad_fn()->name().find("NormAct") != std::string::npos);
  Result out;
  out.add(y);
  const at::Tensor g = in_layout(noise(sizes, "g", how));
  (c.mean_of_pixels ? (y.mean({2, 3}) * g.mean({2, 3})).sum() : (y * g).sum()).backward();
  out.add(x.grad());
  if (c.residual) out.add(r.grad());
  out.add_norm(norm);
  return out;
}

void check_norm(at::ScalarType type, const NormCase& c) {
  INFO(at::toString(type) << ", " << c.images << " images, " << c.channels << " channels, act "
                          << static_cast<int>(c.act) << (c.residual ? ", residual" : "")
                          << (c.training ? ", training, " : ", evaluation, ") << c.layout);
  compare(type, [&](const How& how) { return norm_step(c, how); });
}

}  // namespace

TEST_CASE("fused norm, addition and activation equal the separate operations") {
  for (const at::ScalarType type : kTypes) {
    for (const int channels : {1, 3, 16, 20}) {
      for (const Act act : {Act::kIdentity, Act::kRelu, Act::kRelu6, Act::kSilu}) {
        for (const bool residual : {false, true}) {
          for (const bool training : {true, false}) {
            check_norm(
                type,
                {.channels = channels, .act = act, .residual = residual, .training = training});
          }
        }
      }
    }
    check_norm(type, {.channels = 48, .residual = true, .layout = "slice"});
    check_norm(type, {.channels = 7, .layout = "slice"});
    check_norm(type, {.channels = 1, .layout = "slice"});
    check_norm(type, {.images = 1});
    check_norm(type, {.images = 1, .mean_of_pixels = true});
    check_norm(type, {.residual = true, .mean_of_pixels = true});
  }
}

TEST_CASE("frozen norms, frozen inputs and steps without gradients") {
  nn::BatchNorm2d norm(16), other(16);
  fill_norm(norm, "n.", at::kFloat);
  fill_norm(other, "n.", at::kFloat);
  const at::Tensor x = noise({2, 16, 6, 6}, "x", at::kFloat).contiguous(kLast);
  for (nn::BatchNorm2d* n : {&norm, &other}) n->weight.set_requires_grad(false);
  const at::Tensor y = norm.forward_act(x, Act::kRelu);  // only the bias has a gradient
  const Fused off(false);
  const at::Tensor wanted = other.forward_act(x, Act::kRelu);
  y.square().sum().backward();
  wanted.square().sum().backward();
  CHECK(support::relative_to_max(norm.bias.grad(), other.bias.grad()) < 1e-5);
  CHECK_FALSE(norm.weight.grad().defined());
  nn::fused::set_enabled(true);
  norm.eval();
  other.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor found = norm.forward_act(x, Act::kRelu6);
  CHECK_FALSE(found.requires_grad());
  nn::fused::set_enabled(false);
  CHECK(support::relative_to_max(found, other.forward_act(x, Act::kRelu6)) < 1e-6);
}

TEST_CASE("empty batches and single values") {
  nn::BatchNorm2d norm(4);
  norm.eval();
  CHECK(norm.forward_act(at::zeros({0, 4, 3, 3}), Act::kRelu).sizes() ==
        at::IntArrayRef({0, 4, 3, 3}));
  CHECK(norm.forward(at::ones({1, 4, 1, 1})).numel() == 4);
  norm.train();
  CHECK_THROWS_AS(norm.forward(at::ones({1, 4, 1, 1})), core::Error);
}

TEST_CASE("statistics are exact when the mean is far from zero") {
  nn::BatchNorm2d norm(16, 1e-5, 1.0);
  const at::Tensor small = noise({4, 16, 40, 40}, "x", at::kFloat).contiguous(kLast);
  const at::Tensor y = norm.forward_act(small + 3000.0, Act::kIdentity);
  const at::Tensor shifted = (small + 3000.0).to(at::kDouble);
  const at::Tensor variance = shifted.var({0, 2, 3});
  CHECK(support::relative_to_max(norm.running_var, variance) < 1e-5);
  CHECK(support::relative_to_max(norm.running_mean, shifted.mean({0, 2, 3})) < 1e-6);
}

namespace {

struct BlockCase {
  nn::QARepVGGBlock::Options options;
  bool skip = false, training = true;
};

Result block_step(const BlockCase& c, const How& how) {
  nn::QARepVGGBlock block(c.options);
  support::fill_by_rule(block, 1.0);
  if (how.type == at::kDouble) block.to(how.type);
  block.to_channels_last();
  block.train(c.training);
  const std::int64_t s = c.options.stride;
  const std::int64_t images = how.storage == at::kBFloat16 ? 24 : 3;  // its sums need more numbers
  const at::ScalarType type = how.type == at::kDouble ? how.type : at::kFloat;
  const at::Tensor x =
      leaf(noise({images, c.options.in, 9, 8}, "x", how.storage).to(type).contiguous(kLast));
  const at::Tensor alpha = leaf(at::full({1}, 0.8, at::TensorOptions(type)));
  const at::Tensor skip = leaf(
      noise({images, c.options.out, (9 + s - 1) / s, (8 + s - 1) / s}, "s", how.storage).to(type));
  const tensor::AutocastGuard autocast(at::kCPU, how.type == at::kBFloat16 ? how.type : at::kFloat);
  // Of the block's own type, as in a model.
  const at::Tensor passed =
      (how.type == at::kBFloat16 ? skip.to(how.type) : skip).contiguous(kLast);
  at::Tensor y;
  {
    const Fused fused(how.fused);
    y = c.skip ? block.forward_add(x, alpha, passed) : block.forward(x);
  }
  Result out;
  out.add(y);
  (y * noise(y.sizes(), "g", how.storage).to(y.scalar_type())).sum().backward();
  out.add(x.grad());
  if (c.skip) {
    out.add(alpha.grad());
    out.add(skip.grad());
  }
  for (const tensor::TensorRef& ref : block.named_parameters()) {
    if (ref.name.starts_with("rbr_reparam")) continue;
    // Shifts that a batch norm removes: zero, or rounding noise, on either side.
    const bool no_effect = c.training && c.options.use_post_bn &&
                           (ref.name == "branch_1x1.bias" || ref.name == "branch_3x3.bn.bias");
    if (!no_effect) {
      out.add(ref.tensor->grad());
    } else if (how.type != at::kBFloat16) {
      CHECK(ref.tensor->grad().abs().max().item<double>() < (type == at::kDouble ? 1e-9 : 1e-3));
    }
  }
  for (const tensor::TensorRef& ref : block.named_buffers()) out.add(*ref.tensor);
  return out;
}

}  // namespace

TEST_CASE("a QARepVGG block with fused branches equals the separate operations") {
  const nn::QARepVGGBlock::Options square{.in = 16, .out = 16};
  nn::QARepVGGBlock::Options odd{.in = 20, .out = 20}, strided{.in = 3, .out = 20, .stride = 2},
      bare{.in = 16, .out = 16};
  odd.use_alpha = true;
  odd.act = Act::kIdentity;
  strided.residual = false;
  bare.use_1x1_bias = false;
  bare.use_post_bn = false;
  nn::QARepVGGBlock::Options silu = square;
  silu.act = Act::kSilu;
  for (const at::ScalarType type : kTypes) {
    for (const bool skip : {false, true}) {
      for (const bool training : {true, false}) {
        for (const auto& options : {square, odd, strided, bare, silu}) {
          INFO(at::toString(type) << ", " << options.in << " -> " << options.out << ", act "
                                  << static_cast<int>(options.act) << (skip ? ", skip" : "")
                                  << (training ? ", training" : ", evaluation"));
          compare(type, [&](const How& how) {
            return block_step({.options = options, .skip = skip, .training = training}, how);
          });
        }
      }
    }
  }
}

namespace {

/// Two norms whose results are concatenated; the first is read elsewhere too.
Result concat_step(const How& how, const std::string& fault) {
  nn::BatchNorm2d first(16), second(8);
  fill_norm(first, "first.", how.type);
  fill_norm(second, "second.", how.type);
  const at::Tensor a = leaf(noise({2, 16, 4, 4}, "a", how).contiguous(kLast));
  at::Tensor b = leaf(noise({2, 8, 4, 4}, "b", how).contiguous(kLast));
  if (fault == "layout") b = leaf(b.detach().contiguous());
  const at::Tensor copied = leaf(noise({2, 4, 4, 4}, "c", how).contiguous(kLast));
  const Fused fused(how.fused);
  nn::fused::Concatenation cat(28);
  const at::Tensor y = first.forward_act(a, Act::kRelu, cat.place(a, /*also_dense=*/true));
  cat.add(y);
  const Act act = fault == "act" ? Act::kSilu : Act::kRelu;
  cat.add(second.forward_act(b, act, cat.place(b)));
  cat.add_copy(copied);
  const at::Tensor joined = cat.result();
  CHECK(y.is_contiguous(kLast));
  Result out;
  out.add(joined);
  out.add(y);
  ((joined * noise({2, 28, 4, 4}, "g", how)).sum() + (y * y).sum()).backward();
  for (const at::Tensor& t : {a, b, copied}) out.add(t.grad());
  for (nn::BatchNorm2d* norm : {&first, &second}) out.add_norm(*norm);
  return out;
}

}  // namespace

TEST_CASE("results written into slices of one buffer join as a concatenation") {
  for (const at::ScalarType type : kTypes) {
    for (const std::string fault : {"", "layout", "act"}) {
      INFO(at::toString(type) << " " << fault);
      compare(type, [&](const How& how) { return concat_step(how, fault); });
    }
  }
}

TEST_CASE("inputs that are no rows of channels take the separate operations") {
  CHECK_FALSE(nn::fused::supports(at::zeros({2, 4, 5, 5})));
  CHECK_FALSE(nn::fused::supports(at::zeros({2, 4, 5, 5}, at::kHalf).contiguous(kLast)));
  CHECK_FALSE(nn::fused::supports(at::zeros({2, 4})));
  CHECK_FALSE(nn::fused::supports(
      at::zeros({2, 8, 5, 5}).contiguous(kLast).slice(3, 0, 5, 2).slice(1, 0, 8, 2)));
  CHECK_FALSE(nn::fused::supports(at::zeros({1, 8, 1, 1}).expand({1, 8, 5, 5})));
  CHECK_FALSE(nn::fused::supports(at::zeros({2, 8, 1, 1}).expand({2, 8, 5, 5})));
  CHECK(nn::fused::supports(at::zeros({2, 8, 5, 5}).contiguous(kLast).narrow(1, 2, 4)));
  CHECK(nn::fused::supports(at::zeros({2, 8, 1, 1})));
  nn::BatchNorm2d norm(4);
  const at::Tensor x = noise({2, 4, 5, 5}, "x", at::kFloat);
  const at::Tensor y = norm.forward_act(x, Act::kRelu);
  CHECK(support::relative_to_max(y, norm.forward_act(x.contiguous(kLast), Act::kRelu)) < 1e-5);
}

namespace {

template <class T>
using Tables = std::vector<std::pair<std::string, const nn::kernels::Table<T>*>>;

template <class T>
Tables<T> tables() {
  Tables<T> out;
#if defined(__x86_64__)
  namespace k = nn::kernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out.emplace_back("avx2", &k::avx2::table<T>());
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    out.emplace_back("avx512", &k::avx512::table<T>());
  }
  if (__builtin_cpu_supports("avx512bf16"))
    out.emplace_back("avx512bf16", &k::avx512bf16::table<T>());
#endif
  return out;
}

/// All loops of a table on the same numbers, as one list of results.
template <class T>
std::vector<double> run_loops(const nn::kernels::Table<T>& loops, at::ScalarType type,
                              std::int64_t channels) {
  using A = nn::kernels::Acc<T>;
  using nn::kernels::Rows;
  constexpr std::int64_t kRows = 11;
  const std::int64_t width = (channels + 15) / 16 * 16;
  const auto tensor_of = [&](const char* name) { return noise({kRows, channels + 3}, name, type); };
  const at::Tensor x = tensor_of("x"), g = tensor_of("g"), r = tensor_of("r"),
                   y = at::zeros_like(x), z = at::zeros_like(x);
  const auto in = [&](const at::Tensor& t) {
    return Rows<const T>{static_cast<const T*>(t.const_data_ptr()), channels + 3};
  };
  const auto out = [&](const at::Tensor& t) {
    return Rows<T>{static_cast<T*>(t.data_ptr()), channels + 3};
  };
  std::vector<std::vector<A>> c(8, std::vector<A>(static_cast<std::size_t>(width)));
  for (std::size_t i = 0; i < c.size(); ++i) {
    for (std::size_t j = 0; j < static_cast<std::size_t>(channels); ++j) {
      c[i][j] = static_cast<A>(support::uniform(i, j) + 0.1);
    }
  }
  std::vector<double> results;
  const auto keep = [&](const at::Tensor& t) {
    const at::Tensor d = t.narrow(1, 0, channels).to(at::kDouble).contiguous();
    results.insert(results.end(), d.const_data_ptr<double>(),
                   d.const_data_ptr<double>() + d.numel());
  };
  const auto keep_sums = [&](const std::vector<A>& sums) {
    results.insert(results.end(), sums.begin(), sums.begin() + channels);
  };
  for (const auto act :
       {nn::kernels::Unit::kIdentity, nn::kernels::Unit::kRelu, nn::kernels::Unit::kRelu6}) {
    std::vector<std::vector<A>> s(4, std::vector<A>(static_cast<std::size_t>(width)));
    loops.moments(in(x), kRows, channels, s[0].data(), s[1].data(), s[2].data());
    keep_sums(s[0]);
    keep_sums(s[1]);
    for (const auto how :
         {nn::kernels::Join::kNone, nn::kernels::Join::kInside, nn::kernels::Join::kOutside}) {
      loops.forward(act, how, in(x), c[0].data(), c[1].data(), in(r), A(0.5), out(y), out(z), kRows,
                    channels);
      keep(y);
      keep(z);
    }
    loops.add(in(x), c[0].data(), c[1].data(), in(r), out(y), kRows, channels);
    keep(y);
    for (auto& sum : s) std::fill(sum.begin(), sum.end(), A(0));
    loops.backward_sums(act, in(g), in(x), {}, c[0].data(), c[1].data(), c[2].data(), out(y),
                        s[0].data(), s[1].data(), kRows, channels);
    keep(y);
    loops.backward_sums(act, in(g), in(x), in(r), c[0].data(), c[1].data(), c[2].data(), {},
                        s[2].data(), s[3].data(), kRows, channels);
    for (const auto& sum : s) keep_sums(sum);
    loops.backward_apply(act, in(g), in(x), c[0].data(), c[1].data(), c[2].data(), c[3].data(),
                         c[4].data(), out(y), kRows, channels);
    keep(y);
    for (auto& sum : s) std::fill(sum.begin(), sum.end(), A(0));
    A* const four[4] = {s[0].data(), s[1].data(), s[2].data(), s[3].data()};
    loops.pair_sums(act, in(g), in(x), in(r), c[0].data(), c[1].data(), c[2].data(), c[3].data(),
                    four, kRows, channels);
    for (const auto& sum : s) keep_sums(sum);
    const A* const six[6] = {c[2].data(), c[3].data(), c[4].data(),
                             c[5].data(), c[6].data(), c[7].data()};
    loops.pair_apply(act, in(g), in(x), in(r), c[0].data(), c[1].data(), six, out(y), out(z), kRows,
                     channels);
    keep(y);
    keep(z);
    loops.sum(out(z), in(x), in(r), kRows, channels);
    loops.sum(out(z), in(g), {}, kRows, channels);
    keep(z);
    results.push_back(loops.dot(in(x), in(r), kRows, channels));
  }
  return results;
}

template <class T>
void compare_tables(at::ScalarType type, double limit) {
  for (const std::int64_t channels : {1, 5, 16, 37, 64}) {
    const std::vector<double> wanted = run_loops(nn::kernels::base::table<T>(), type, channels);
    for (const auto& [name, table] : tables<T>()) {
      INFO(name << ", " << at::toString(type) << ", " << channels << " channels");
      const std::vector<double> found = run_loops(*table, type, channels);
      REQUIRE(found.size() == wanted.size());
      double worst = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        worst = std::max(worst, std::abs(found[i] - wanted[i]) / (1.0 + std::abs(wanted[i])));
      }
      CHECK(worst <= limit);
    }
  }
}

}  // namespace

TEST_CASE("the loops of every instruction set give the same results") {
  compare_tables<double>(at::kDouble, 1e-12);
  compare_tables<float>(at::kFloat, 1e-5);
  compare_tables<nn::kernels::Bf16>(at::kBFloat16, 1e-2);  // one unit in the last place
}

}  // namespace sgtrain
