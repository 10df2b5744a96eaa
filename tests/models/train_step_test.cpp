// Whole training steps: against the reference's losses and gradients, and in every layout and
// precision for every architecture.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "nn/layers.h"
#include "support/build_model.h"
#include "support/fill.h"
#include "support/golden.h"
#include "tensor/device.h"
#include "tensor/safetensors.h"

namespace sgtrain {
namespace {

using core::Tree;

bool is_unused(const std::vector<std::string>& prefixes, const std::string& name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& p) { return name.starts_with(p); });
}

/// SGD with momentum 0.9, as the golden's steps.
class Sgd {
 public:
  Sgd(models::Model& model, double lr) : parameters_(model.parameters()), lr_(lr) {
    for (const at::Tensor& p : parameters_) velocity_.push_back(at::zeros_like(p));
  }
  void step() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].grad().defined()) continue;
      velocity_[i].mul_(0.9).add_(parameters_[i].grad());
      parameters_[i].add_(velocity_[i], -lr_);
      parameters_[i].mutable_grad() = at::Tensor();
    }
  }

 private:
  std::vector<at::Tensor> parameters_, velocity_;
  double lr_;
};

struct StepCase {
  const char* name;
  double gain, smoothing, lr;
};

void check_gradients(const StepCase& c, models::Model& model, const std::string& column,
                     double tolerance) {
  const auto rows =
      support::read_rows(support::golden("train_steps/" + std::string(c.name) + ".grads.csv"), ',');
  const auto& header = rows.front();
  const auto l2 = static_cast<std::size_t>(
      std::find(header.begin(), header.end(), "grad_l2_" + column) - header.begin());
  std::map<std::string, std::pair<double, double>> wanted;
  double largest = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    wanted[rows[i][0]] = {std::stod(rows[i].at(l2)), std::stod(rows[i].at(l2 + 1))};
    largest = std::max(largest, std::stod(rows[i].at(l2)));
  }
  std::size_t checked = 0;
  for (const tensor::TensorRef& ref : model.named_parameters()) {
    INFO(ref.name);
    const auto found = wanted.find(ref.name);
    REQUIRE(found != wanted.end());
    const at::Tensor grad = ref.tensor->grad().to(at::kDouble);
    const auto [norm, sum] = found->second;
    CHECK(std::abs(grad.norm().item<double>() - norm) <= tolerance * (norm + 1e-3 * largest));
    const double scale = norm * std::sqrt(static_cast<double>(grad.numel()));
    CHECK(std::abs(grad.sum().item<double>() - sum) <= tolerance * (scale + 1e-3 * largest));
    ++checked;
  }
  CHECK(checked == wanted.size());
}

}  // namespace

TEST_CASE("classification training steps equal the reference's") {
  // Gains and learning rates of golden/train_steps/summary.json.
  const std::vector<StepCase> cases{{"resnet18", 1.1, 0.1, 0.001},
                                    {"mobilenet_v2", 1.3, 0.0, 0.0001}};
  const auto targets = tensor::read_safetensors(support::golden("train_steps/targets.safetensors"));
  for (const StepCase& c : cases) {
    for (const bool exact : {true, false}) {
      INFO(c.name << (exact ? " double" : " float channels_last"));
      auto model = support::build_model(c.name, 1000);
      support::fill_by_rule(*model, c.gain);
      at::Tensor input = support::rule_input({2, 3, 128, 128});
      if (exact) {
        model->to(at::kDouble);
        input = input.to(at::kDouble);
      } else {
        model->to_channels_last();
        input = input.contiguous(at::MemoryFormat::ChannelsLast);
      }
      model->train();
      Sgd optimizer(*model, c.lr);
      const auto rows =
          support::read_rows(support::golden("train_steps/" + std::string(c.name) + ".csv"), ',');
      const int steps = exact ? 4 : 1;  // float drifts afterwards
      for (int step = 0; step < steps; ++step) {
        const at::Tensor logits = model->run(input)["logits"];
        const at::Tensor loss = at::cross_entropy_loss(logits, targets["cls_target"], {},
                                                       at::Reduction::Mean, -100, c.smoothing);
        const auto& row = rows.at(static_cast<std::size_t>(step) + 1);
        REQUIRE((row[0] == "fp64" && std::stoi(row[1]) == step));
        CHECK(loss.item<double>() == Approx(std::stod(row[2])).epsilon(exact ? 1e-6 : 3e-5));
        loss.backward();
        if (step == 0) check_gradients(c, *model, "fp64", exact ? 1e-6 : 2e-2);
        optimizer.step();
      }
    }
  }
}

TEST_CASE("every architecture trains in channels_last, float and bfloat16, as in double") {
  const std::map<std::string, support::Keys> keys{
      {"custom_resnet",
       {{"structure", support::list_of({1, 1, 0, 1})}, {"width_mult", Tree::of(0.125)}}},
      {"custom_resnet50",
       {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", Tree::of(0.125)}}},
      {"custom_resnet_cifar",
       {{"structure", support::list_of({1, 1, 0, 1})}, {"width_mult", Tree::of(0.125)}}},
      {"custom_resnet50_cifar",
       {{"structure", support::list_of({1, 0, 1, 1})}, {"width_mult", Tree::of(0.125)}}}};
  for (const std::string& name : models::Model::registry().names()) {
    const auto found = keys.find(name);
    const auto build = [&] {
      auto model =
          support::build_model(name, 5, found == keys.end() ? support::Keys{} : found->second);
      support::fill_by_rule(*model, 1.0);
      model->apply([](const std::string&, tensor::Module& module) {  // draws would differ
        if (auto* dropout = dynamic_cast<nn::Dropout*>(&module)) dropout->p = 0.0;
        if (auto* channels = dynamic_cast<nn::Dropout2d*>(&module)) channels->p = 0.0;
        if (auto* path = dynamic_cast<nn::DropPath*>(&module)) path->p = 0.0;
      });
      model->train();
      return model;
    };
    const auto gradients = [&](models::Model& model, const at::Tensor& input, bool bf16) {
      tensor::ModelOutput out;
      {
        const tensor::AutocastGuard autocast(at::kCPU, bf16 ? at::kBFloat16 : at::kFloat);
        out = model.run(input);
      }
      // A loss that reaches every trained output with weights of both signs.
      at::Tensor loss;
      for (const char* key : {"logits", "cls_logits", "reg_distri"}) {
        if (!out.has(key)) continue;
        const at::Tensor weights =
            support::rule_input(out[key].sizes(), key).to(out[key].scalar_type()) - 0.5;
        const at::Tensor part = (out[key] * weights).mean();
        loss = loss.defined() ? loss + part : part;
      }
      loss.backward();
      const auto unused = model.unused_parameters();
      std::vector<at::Tensor> flat;
      for (const tensor::TensorRef& ref : model.named_parameters()) {
        INFO(ref.name);
        if (is_unused(unused, ref.name)) {
          REQUIRE_FALSE(ref.tensor->grad().defined());
          continue;
        }
        REQUIRE(ref.tensor->grad().defined());
        REQUIRE(ref.tensor->grad().scalar_type() == ref.tensor->scalar_type());
        REQUIRE(at::isfinite(ref.tensor->grad()).all().item<bool>());
        flat.push_back(ref.tensor->grad().to(at::kDouble).flatten());
      }
      return at::cat(flat);
    };
    const auto cosine = [](const at::Tensor& a, const at::Tensor& b) {
      return (a.dot(b) / a.norm() / b.norm()).item<double>();
    };

    INFO(name);
    const at::Tensor input = support::rule_input({4, 3, 64, 64});
    auto exact = build();
    exact->to(at::kDouble);
    const at::Tensor wanted = gradients(*exact, input.to(at::kDouble), false);
    for (const bool bf16 : {false, true}) {
      INFO((bf16 ? "bf16" : "fp32"));
      auto model = build();
      model->to_channels_last();
      const at::Tensor found_gradient =
          gradients(*model, input.contiguous(at::MemoryFormat::ChannelsLast), bf16);
      // Batch norm over few values amplifies rounding: in bfloat16 the directions of the deepest
      // networks are noise, their size is not.
      if (bf16) {
        const double ratio = (found_gradient.norm() / wanted.norm()).item<double>();
        CHECK(ratio > 0.2);
        CHECK(ratio < 5.0);
      } else {
        CHECK(cosine(found_gradient, wanted) > 0.98);
      }
    }
  }
}

}  // namespace sgtrain
