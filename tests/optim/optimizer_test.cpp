// State and its files; the numbers of the updates are in trajectory_test.cpp.
#include "optim/optimizer.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/param_groups.h"
#include "optim/state_value.h"
#include "optim/support.h"
#include "support/build_model.h"
#include "support/golden.h"
#include "tensor/checkpoint_file.h"

namespace sgtrain::optim {
namespace {

using testing::Json;
using testing::make_optimizer;

const std::vector<std::pair<std::string, Json>> kAll = {
    {"SGD", {{"nesterov", true}}},     {"SGD", {{"momentum", 0.0}}},
    {"Adam", {{"amsgrad", true}}},     {"AdamW", Json::object()},
    {"RMSprop", {{"centered", true}}}, {"RMSpropTF", {{"centered", true}, {"momentum", 0.0}}},
    {"RMSpropTF", Json::object()},     {"Lamb", Json::object()},
    {"Lion", {{"weight_decay", 0.1}}},
};

ParamGroup group_of(const std::vector<at::Tensor>& params, double lr = 0.01) {
  ParamGroup group;
  group.lr = group.initial_lr = lr;
  for (const at::Tensor& param : params) {
    group.params.push_back(param.detach().clone().set_requires_grad(true));
    group.param_names.push_back("p" + std::to_string(group.param_names.size()));
  }
  return group;
}

void set_grads(Optimizer& optimizer, int seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  for (ParamGroup& group : optimizer.groups()) {
    for (at::Tensor& param : group.params) param.mutable_grad() = at::randn_like(param.detach());
  }
}

TEST_CASE("a saved optimizer continues exactly") {
  const std::vector<at::Tensor> start = {at::randn({4, 3, 3, 3}), at::randn({4}),
                                         at::randn({2, 4})};
  for (const auto& [name, params] : kAll) {
    INFO(name << " " << params.dump());
    auto one = make_optimizer(name, params);
    one->bind({group_of(start)});
    for (int i = 0; i < 3; ++i) {
      set_grads(*one, i);
      one->step();
    }
    auto two = make_optimizer(name, params);
    std::vector<at::Tensor> now;
    for (const at::Tensor& p : one->groups()[0].params) now.push_back(p.detach().clone());
    two->bind({group_of(now, 0.5)});
    one->groups()[0].lr = 0.02;
    two->load_state_dict(from_value(to_value(one->state_dict()), "x.pth"));
    CHECK(two->groups()[0].lr == 0.02);
    for (Optimizer* optimizer : {one.get(), two.get()}) {
      set_grads(*optimizer, 7);
      optimizer->step();
    }
    for (std::size_t i = 0; i < now.size(); ++i) {
      CHECK(at::equal(one->groups()[0].params[i], two->groups()[0].params[i]));
      CHECK_FALSE(at::equal(one->groups()[0].params[i], now[i]));
    }
    CHECK(tensor::same(to_value(one->state_dict()), to_value(two->state_dict())));
  }
}

TEST_CASE("memory layouts of parameter and gradient do not matter") {
  const at::Tensor weight = at::randn({8, 6, 3, 3});
  for (const auto& [name, params] : kAll) {
    INFO(name << " " << params.dump());
    std::vector<at::Tensor> results;
    for (const auto param_format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      for (const auto grad_format :
           {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        auto optimizer = make_optimizer(name, params);
        optimizer->bind({group_of({weight.contiguous(param_format)})});
        for (int i = 0; i < 2; ++i) {
          at::manual_seed(static_cast<std::uint64_t>(i));
          optimizer->groups()[0].params[0].mutable_grad() =
              at::randn({8, 6, 3, 3}).contiguous(grad_format);
          optimizer->step();
        }
        results.push_back(optimizer->groups()[0].params[0].detach());
      }
    }
    for (const at::Tensor& result : results) CHECK(at::allclose(result, results[0], 1e-5, 1e-6));
  }
}

TEST_CASE("parameters without gradient stay, and join later") {
  for (const auto& [name, params] : kAll) {
    INFO(name << " " << params.dump());
    auto optimizer = make_optimizer(name, params);
    optimizer->bind({group_of({at::ones({3}), at::ones({3})})});
    auto& group = optimizer->groups()[0];
    group.params[0].mutable_grad() = at::ones({3});
    optimizer->step();
    CHECK(at::equal(group.params[1].detach(), at::ones({3})));
    CHECK(optimizer->state_dict().state.count(1) == 0);
    optimizer->zero_grad();
    CHECK(at::equal(group.params[0].grad(), at::zeros({3})));
    CHECK_FALSE(group.params[1].grad().defined());
    group.params[1].mutable_grad() = at::ones({3});
    optimizer->step();
    CHECK_FALSE(at::equal(group.params[1].detach(), at::ones({3})));
  }
}

TEST_CASE("the reference's optimizer state is taken over") {
  const auto value = tensor::read_pth(support::golden("checkpoints/ckpt_latest.pth"));
  const auto model = support::build_model(
      "custom_resnet_cifar", 10,
      {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", core::Tree::of(0.125)}});
  auto optimizer = make_optimizer("SGD", {{"momentum", 0.5}});
  optimizer->bind(param_groups(*model, {.initial_lr = {{"default", 0.1}},
                                        .no_decay_on_bias_and_norm = true,
                                        .finetune_prefixes = {}}));
  const tensor::Value& saved = value["optimizer_state_dict"];
  optimizer->load_state_dict(from_value(saved, "ckpt_latest.pth"));
  CHECK(optimizer->groups()[0].lr == Approx(0.0009535926281382613).epsilon(1e-15));
  const tensor::Value again = to_value(optimizer->state_dict());
  CHECK(tensor::same(again["state"], saved["state"]));
  // Every key of the reference's groups, with its value.
  for (std::size_t g = 0; g < 2; ++g) {
    for (const auto& [key, option] : saved["param_groups"].items()[g].pairs()) {
      INFO(key.as_string());
      const tensor::Value& ours = again["param_groups"].items()[g][key.as_string()];
      CHECK((tensor::same(ours, option) || ours.as_double() == option.as_double()));
    }
  }
}

TEST_CASE("state that does not fit is refused and changes nothing") {
  auto adam = make_optimizer("Adam");
  adam->bind({group_of({at::ones({3}), at::ones({2})})});
  set_grads(*adam, 1);
  adam->step();
  const OptimizerState state = adam->state_dict();
  const auto refused = [&](const std::string& name, const std::vector<at::Tensor>& params,
                           const std::string& text) {
    auto other = make_optimizer(name);
    other->bind({group_of(params)});
    CHECK_THROWS_AS(other->load_state_dict(state), core::InputError);
    CHECK_THROWS_WITH(other->load_state_dict(state), Catch::Contains(text));
    CHECK(other->state_dict().state.empty());
  };
  refused("SGD", {at::ones({3}), at::ones({2})}, "of another optimizer");
  refused("Adam", {at::ones({3})}, "has 2 parameters, here it has 1");
  refused("Adam", {at::ones({3}), at::ones({4})}, "shape [2]");
  CHECK_THROWS_WITH(from_value(tensor::Value::dict({{"state", 3}}), "x.pth"),
                    Catch::Contains("x.pth"));
}

TEST_CASE("options: defaults of the reference, mistakes named") {
  for (const auto& [name, expected] :
       std::vector<std::pair<std::string, double>>{{"SGD", 1e-4},
                                                   {"Adam", 1e-4},
                                                   {"AdamW", 1e-2},
                                                   {"RMSprop", 1e-4},
                                                   {"RMSpropTF", 1e-4},
                                                   {"Lamb", 1e-2},
                                                   {"Lion", 0.0}}) {
    auto optimizer = make_optimizer(name);
    auto decays = group_of({at::ones({1})}), not_decays = group_of({at::ones({1})});
    not_decays.no_decay = true;
    optimizer->bind({not_decays, decays});
    CHECK(optimizer->groups()[0].weight_decay == 0.0);
    CHECK(optimizer->groups()[1].weight_decay == expected);
  }
  CHECK_NOTHROW(make_optimizer("adamw", {{"foreach", true}, {"betas", {0.8, 0.9}}}));
  CHECK_THROWS_WITH(make_optimizer("SGD", {{"momentun", 0.9}}), Catch::Contains("momentum"));
  CHECK_THROWS_WITH(make_optimizer("SGD", {{"momentum", -1.0}}), Catch::Contains("momentum"));
  CHECK_THROWS_WITH(make_optimizer("Adam", {{"betas", {0.9}}}), Catch::Contains("two numbers"));
  CHECK_THROWS_WITH(make_optimizer("SGD", {{"nesterov", true}, {"momentum", 0.0}}),
                    Catch::Contains("nesterov"));
  auto optimizer = make_optimizer("SGD");
  const auto group = group_of({at::ones({1})});
  CHECK_THROWS_WITH(optimizer->bind({group, group}), Catch::Contains("two groups"));
}

TEST_CASE("gradients are clipped by their norm over all parameters") {
  auto optimizer = make_optimizer("SGD");
  optimizer->bind({group_of({at::zeros({2}), at::zeros({1})})});
  auto& params = optimizer->groups()[0].params;
  params[0].mutable_grad() = at::tensor({3.0F, 0.0F});
  params[1].mutable_grad() = at::tensor({4.0F});
  CHECK(clip_grad_norm(*optimizer, 10.0).item<float>() == Approx(5.0));
  CHECK(params[1].grad().item<float>() == 4.0F);
  CHECK(clip_grad_norm(*optimizer, 1.0).item<float>() == Approx(5.0));
  CHECK(params[1].grad().item<float>() == Approx(0.8));
  CHECK(grad_norm(optimizer->gradients()).item<float>() == Approx(1.0));
}

TEST_CASE("the loss scale backs off at inf and grows after quiet steps") {
  auto optimizer = make_optimizer("SGD");
  optimizer->bind({group_of({at::zeros({2})})});
  at::Tensor& param = optimizer->groups()[0].params[0];
  GradScaler scaler(at::kCPU, {.init_scale = 8.0, .growth_interval = 2});
  CHECK(scaler.scale(at::ones({})).item<float>() == 8.0F);
  const auto step = [&](float grad) {
    param.mutable_grad() = at::full({2}, grad);
    const bool stepped = scaler.step(*optimizer);
    scaler.update();
    return stepped;
  };
  CHECK(step(16.0F));
  CHECK(at::allclose(param.grad(), at::full({2}, 2.0)));
  CHECK(step(16.0F));
  CHECK(scaler.current_scale() == 16.0);
  const at::Tensor before = param.detach().clone();
  CHECK_FALSE(step(std::numeric_limits<float>::infinity()));
  CHECK(at::equal(before, param.detach()));
  CHECK(scaler.current_scale() == 8.0);
  // Another rank found one.
  scaler.on_found_inf([](at::Tensor& found) { found.fill_(1.0); });
  CHECK_FALSE(step(1.0F));
  GradScaler other(at::kCPU);
  other.load_state_dict(scaler.state_dict());
  CHECK(tensor::same(other.state_dict(), scaler.state_dict()));
  other.load_state_dict(tensor::Value::dict());
  CHECK(other.current_scale() == 4.0);
}

}  // namespace
}  // namespace sgtrain::optim
