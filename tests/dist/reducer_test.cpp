#include "dist/reducer.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "support/ranks.h"

using namespace sgtrain;
using Compression = dist::Reducer::Compression;

namespace {

/// Linear, ReLU, linear, with a buffer.
class Net : public tensor::Module {
 public:
  explicit Net(std::int64_t hidden = 5) {
    add_parameter("w1", w1, at::randn({hidden, 4}, at::kDouble).set_requires_grad(true));
    add_parameter("b1", b1, at::randn({hidden}, at::kDouble).set_requires_grad(true));
    add_parameter("w2", w2, at::randn({3, hidden}, at::kDouble).set_requires_grad(true));
    add_buffer("steps", steps, at::randint(100, {1}, at::kLong));
  }
  at::Tensor forward(const at::Tensor& x) override {
    return at::linear(at::relu(at::linear(x, w1, b1)), w2);
  }
  at::Tensor w1, b1, w2, steps;
};

at::Tensor input_of(int rank, int micro_batch) {
  at::manual_seed(1000 + 10 * rank + micro_batch);
  return at::randn({6, 4}, at::kDouble);
}

void zero_gradients(tensor::Module& net) {
  for (at::Tensor& p : net.parameters()) {
    if (p.grad().defined()) p.mutable_grad().zero_();
  }
}

// What the mean over ranks of the accumulated gradients must be, computed in one process.
std::vector<at::Tensor> expected_gradients(Net& net, int ranks, int micro_batches) {
  Net copy;
  tensor::copy_state(net, copy);
  for (int r = 0; r < ranks; ++r) {
    for (int m = 0; m < micro_batches; ++m) {
      (copy.forward(input_of(r, m)).square().sum() / ranks).backward();
    }
  }
  std::vector<at::Tensor> out;
  for (const at::Tensor& p : copy.parameters()) out.push_back(p.grad());
  return out;
}

void check_gradients(Net& net, const std::vector<at::Tensor>& expected, double tolerance) {
  const auto parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double scale = expected[i].abs().max().item<double>();
    const double off = (parameters[i].grad() - expected[i]).abs().max().item<double>();
    CHECK(off <= tolerance * scale);
  }
}

void train_steps(dist::Communicator& comm, Net& net, const dist::Reducer::Options& options,
                 double tolerance) {
  dist::Reducer reducer(comm, net.named_parameters(), options);
  for (int step = 0; step < 4; ++step) {
    const int micro_batches = step % 2 == 0 ? 1 : 3;
    const auto expected = expected_gradients(net, comm.world_size(), micro_batches);
    for (int m = 0; m < micro_batches; ++m) {
      reducer.before_forward(m == micro_batches - 1);
      const at::Tensor loss = net.forward(input_of(comm.rank(), m)).square().sum();
      reducer.backward(loss);
    }
    check_gradients(net, expected, tolerance);
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : net.parameters()) p.sub_(p.grad(), 0.01);
    zero_gradients(net);
    dist::check_in_sync(comm, net.state());
  }
}

}  // namespace

TEST_CASE("rank: gradients", "[.][rank]") {
  const auto comm = support::join();
  at::manual_seed(comm->rank());  // weights differ until they are broadcast
  Net net;
  CHECK_THROWS_WITH(dist::check_in_sync(*comm, net.state()), Catch::Contains("'w1'"));
  dist::broadcast_state(*comm, net.state());
  dist::check_in_sync(*comm, net.state());
  // Tiny buckets too, so that there are several.
  train_steps(*comm, net, {}, 1e-14);
  train_steps(*comm, net, {.bucket_bytes = 64, .first_bucket_bytes = 64}, 1e-14);
  train_steps(*comm, net, {.compression = Compression::kBf16}, 0.02);
  train_steps(*comm, net, {.compression = Compression::kFp16}, 0.002);
}

TEST_CASE("gradients are the mean over 2, 3 and 4 ranks, with accumulation") {
  for (const int n : {2, 3, 4}) CHECK(support::run_ranks(n, "rank: gradients") == 0);
}

TEST_CASE("rank: shapes differ", "[.][rank]") {
  const auto comm = support::join();
  Net net(comm->rank() == 1 ? 7 : 5);
  CHECK_THROWS_WITH(dist::broadcast_state(*comm, net.state()),
                    Catch::Contains("w1 Double [5,4]") && Catch::Contains("w1 Double [7,4]"));
}

TEST_CASE("models that differ between ranks are refused with the first tensor") {
  CHECK(support::run_ranks(2, "rank: shapes differ") == 0);
}

TEST_CASE("rank: unused parameter", "[.][rank]") {
  const auto comm = support::join();
  Net net;
  dist::broadcast_state(*comm, net.state());
  dist::Reducer reducer(*comm, net.named_parameters());
  reducer.before_forward();
  const at::Tensor loss = at::linear(input_of(comm->rank(), 0), net.w1).sum();
  // Before an optimizer step could take the ranks apart.
  CHECK_THROWS_WITH(reducer.backward(loss), Catch::Contains("last step: b1, w2\n"));
}

TEST_CASE("parameters without a gradient are named instead of a hang") {
  CHECK(support::run_ranks(2, "rank: unused parameter") == 0);
}

TEST_CASE("in one process the reducer changes nothing") {
  const auto comm = dist::make_single();
  Net net;
  train_steps(*comm, net, {}, 1e-14);
}

TEST_CASE("rank: traffic", "[.][rank]") {
  const auto comm = support::join();
  at::manual_seed(1);
  Net net;
  dist::broadcast_state(*comm, net.state());
  dist::Reducer reducer(*comm, net.named_parameters(),
                        {.bucket_bytes = 64, .first_bucket_bytes = 64});
  CHECK(reducer.traffic().steps == 0);
  for (int step = 0; step < 3; ++step) {
    reducer.before_forward(step > 0);
    reducer.backward(net.forward(input_of(comm->rank(), step)).square().sum());
    zero_gradients(net);
  }
  const dist::Reducer::Traffic traffic = reducer.traffic();
  CHECK(traffic.steps == 2);  // the first one did not exchange anything
  CHECK(traffic.seconds > 0.0);
  CHECK(traffic.waited > 0.0);  // the last bucket always
  CHECK(traffic.waited <= traffic.seconds);
}

TEST_CASE("the exchange of gradients is timed") {
  CHECK(support::run_ranks(2, "rank: traffic") == 0);
}
