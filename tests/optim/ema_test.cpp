#include "optim/ema.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "support/golden.h"

namespace sgtrain::optim {
namespace {

class Net : public tensor::Module {
 public:
  Net() {
    add_parameter("weight", weight, at::ones({2, 2}));
    add_buffer("running_mean", running_mean, at::zeros({2}));
    add_buffer("num_batches_tracked", tracked, at::zeros({}, at::kLong));
    add_buffer("scratch", scratch, at::zeros({1}), /*persistent=*/false);
  }
  at::Tensor weight, running_mean, tracked, scratch;
};

TEST_CASE("decays equal the reference's") {
  const auto rows = support::read_rows(support::golden("schedules/ema_decay.csv"), ',');
  const std::vector<EmaParams> params = {{.decay = 0.9999, .decay_type = "constant"},
                                         {.decay = 0.9999, .decay_type = "threshold"},
                                         {.decay = 0.9999, .decay_type = "exp", .beta = 15},
                                         {.decay = 0.9999, .decay_type = "exp", .beta = 3},
                                         {.decay = 0.5, .decay_type = "threshold"}};
  REQUIRE(rows.size() > 30);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    // Titles of the columns hold commas; the values do not.
    REQUIRE(rows[i].size() == params.size() + 1);
    for (std::size_t p = 0; p < params.size(); ++p) {
      const double expected = std::stod(rows[i][p + 1]);
      CHECK(ema_decay(params[p], std::stoll(rows[i][0]), 35) ==
            Approx(expected).epsilon(1e-12).margin(1e-15));
    }
  }
  CHECK_THROWS_AS(ema_decay({.decay_type = "linear"}, 1, 1), core::InputError);
}

TEST_CASE("the average follows floats, buffers included, and leaves counters") {
  Net net;
  Ema ema(net, {.decay = 0.75, .decay_type = "constant"});
  {
    const at::NoGradGuard no_grad;
    net.weight.fill_(5.0);
    net.running_mean.fill_(8.0);
    net.tracked.fill_(3);
  }
  ema.update(net, 1, 10);
  const auto state = ema.state_dict();
  REQUIRE(state.size() == 3);
  CHECK(at::equal(state[0].second, at::full({2, 2}, 2.0)));  // 0.75 * 1 + 0.25 * 5
  CHECK(at::equal(state[1].second, at::full({2}, 2.0)));
  CHECK(state[2].second.item<std::int64_t>() == 0);
  CHECK(state[0].second.requires_grad() == false);
}

TEST_CASE("swapping moves handles, not numbers") {
  Net net;
  Ema ema(net, {.decay = 0.0, .decay_type = "constant"});
  const void* raw = net.weight.data_ptr();
  const at::Tensor optimizers_handle = net.weight;
  const void* average = ema.state_dict()[0].second.data_ptr();
  {
    const EmaScope scope(&ema, net);
    CHECK(net.weight.data_ptr() == average);
    CHECK(optimizers_handle.data_ptr() == raw);
    CHECK_THROWS_AS(ema.update(net, 1, 1), core::Error);
    CHECK_THROWS_AS(ema.state_dict(), core::Error);
  }
  CHECK(net.weight.data_ptr() == raw);
  CHECK(net.weight.requires_grad());
  { const EmaScope nothing(nullptr, net); }
}

TEST_CASE("an average is restored, and what does not fit is named") {
  Net net;
  Ema ema(net, {});
  tensor::StateDict state = {{"running_mean", at::full({2}, 4.0)},
                             {"weight", at::full({2, 2}, 3.0)},
                             {"num_batches_tracked", at::full({}, 7, at::kLong)}};
  ema.load_state_dict(state, "x.pth");
  CHECK(at::equal(ema.state_dict()[0].second, at::full({2, 2}, 3.0)));
  CHECK(ema.state_dict()[2].second.item<std::int64_t>() == 7);
  state[1].second = at::ones({3});
  CHECK_THROWS_WITH(ema.load_state_dict(state, "x.pth"), Catch::Contains("'weight'"));
  state.pop_back();
  CHECK_THROWS_WITH(ema.load_state_dict(state, "x.pth"), Catch::Contains("x.pth"));
}

}  // namespace
}  // namespace sgtrain::optim
