#include "nn/sync_batch_norm.h"

#include <catch2/catch.hpp>

#include "support/ranks.h"

using namespace sgtrain;

namespace {

struct Result {
  at::Tensor y, dx, dw, db, mean, var;
};

// Forward and backward of act(bn(x)) * g, the running statistics after two batches.
Result run(nn::BatchNorm2d& bn, const at::Tensor& input, const at::Tensor& g) {
  Result out;
  for (int batch = 0; batch < 2; ++batch) {
    const at::Tensor x = input.detach().clone().set_requires_grad(true);
    for (at::Tensor& p : bn.parameters()) p.mutable_grad() = at::Tensor();
    out.y = bn.forward_act(x, nn::Act::kRelu);
    (out.y * g).sum().backward();
    out.dx = x.grad();
  }
  out.dw = bn.weight.grad();
  out.db = bn.bias.grad();
  out.mean = bn.running_mean;
  out.var = bn.running_var;
  return out;
}

void fill(nn::BatchNorm2d& bn) {
  const at::NoGradGuard no_grad;
  bn.weight.uniform_(0.5, 1.5);
  bn.bias.uniform_(-0.5, 0.5);
  for (at::Tensor& p : bn.parameters()) p.set_requires_grad(true);
}

void check_near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  const double off = (x - y).norm().item<double>() / y.norm().item<double>();
  CHECK(off <= tolerance);
}

void check(dist::Communicator& comm, at::ScalarType type, double tolerance) {
  const bool reduced = type == at::kBFloat16;
  const int ranks = comm.world_size();
  std::vector<std::int64_t> sizes;  // different on every rank
  std::int64_t first = 0, all = 0;
  for (int r = 0; r < ranks; ++r) {
    if (r == comm.rank()) first = all;
    sizes.push_back(2 + r);
    all += sizes.back();
  }
  const std::int64_t mine = sizes[static_cast<std::size_t>(comm.rank())];
  at::manual_seed(3);
  const auto draw = [&] {
    return at::randn({all, 5, 7, 6}, at::kDouble)
        .mul_(2)
        .add_(0.7)
        .to(type)
        .contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor x = draw(), g = draw();
  nn::BatchNorm2d whole(5), part(5);
  if (type == at::kDouble) {
    whole.to(type);
    part.to(type);
  }
  fill(whole);
  tensor::copy_state(whole, part);
  for (at::Tensor& p : part.parameters()) p.set_requires_grad(true);
  nn::synchronise_batch_norm(part, comm);
  REQUIRE(part.synchronised());
  const Result expected = run(whole, x, g);
  Result got = run(part, x.narrow(0, first, mine), g.narrow(0, first, mine));
  check_near(got.y, expected.y.narrow(0, first, mine), tolerance);
  check_near(got.dx, expected.dx.narrow(0, first, mine), tolerance);
  comm.all_reduce(got.dw);
  comm.all_reduce(got.db);
  check_near(got.dw, expected.dw, tolerance);
  check_near(got.db, expected.db, tolerance);
  // Statistics of 16-bit inputs too are in float.
  check_near(got.mean, expected.mean, reduced ? 1e-5 : tolerance);
  check_near(got.var, expected.var, reduced ? 1e-5 : tolerance);
  CHECK(got.y.scalar_type() == type);
  CHECK(got.y.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(part.num_batches_tracked.item<std::int64_t>() == 2);

  part.eval();
  whole.eval();
  CHECK_FALSE(part.synchronised());
  const at::NoGradGuard no_grad;
  check_near(part.forward(x), whole.forward(x), reduced ? 1e-2 : tolerance);
}

}  // namespace

TEST_CASE("rank: sync batch norm", "[.][rank]") {
  const auto comm = support::join();
  check(*comm, at::kDouble, 1e-13);
  check(*comm, at::kFloat, 2e-6);
  check(*comm, at::kBFloat16, 1e-2);
}

TEST_CASE("synchronised batch norm of 2 and 3 processes equals one on the global batch") {
  for (const int ranks : {2, 3}) CHECK(support::run_ranks(ranks, "rank: sync batch norm") == 0);
}

TEST_CASE("one process stays as it is") {
  const auto comm = dist::make_single();
  nn::BatchNorm2d bn(3);
  nn::synchronise_batch_norm(bn, *comm);
  CHECK_FALSE(bn.synchronised());
}
