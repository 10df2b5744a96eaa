#include "tensor/device.h"

#include <ATen/Parallel.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "tensor/cuda_module.h"

using namespace sgtrain;
using tensor::AutocastGuard;

TEST_CASE("devices by name") {
  const auto cpu = tensor::resolve_device("CPU");
  REQUIRE(cpu.size() == 1);
  CHECK(cpu[0].is_cpu());
  CHECK_THROWS_AS(tensor::resolve_device("tpu"), core::InputError);
  CHECK_THROWS_AS(tensor::resolve_device("0,,1"), core::InputError);
  CHECK_THROWS_AS(tensor::resolve_device("cuda:-1"), core::InputError);
  CHECK_FALSE(tensor::asks_for_gpu("cpu"));
  CHECK_FALSE(tensor::asks_for_gpu(""));
  CHECK(tensor::asks_for_gpu("0,2,3"));
  CHECK_FALSE(tensor::describe_device(cpu[0]).empty());

  const int count = tensor::gpu_count();
  CHECK(tensor::resolve_device("auto")[0].is_cuda() == (count > 0));
  // One more than there are: the message says what there is and why not more.
  CHECK_THROWS_WITH(tensor::resolve_device(std::to_string(count)),
                    Catch::Contains(count == 0 ? tensor::why_no_gpu() : "there"));
  if (count == 0) {
    CHECK_FALSE(tensor::why_no_gpu().empty());
    CHECK_THROWS_AS(tensor::resolve_device("cuda"), core::InputError);
    CHECK_THROWS_AS(tensor::resolve_device("all"), core::InputError);
  } else {
    CHECK(tensor::resolve_device("all").size() == static_cast<std::size_t>(count));
    CHECK(tensor::resolve_device("cuda")[0].index() == 0);
    CHECK_THROWS_WITH(tensor::resolve_device("0,0"), Catch::Contains("twice"));
  }
}

TEST_CASE("threads") {
  const int cores = tensor::usable_cores();
  CHECK(cores >= 1);
  unsetenv("OMP_NUM_THREADS");
  CHECK(tensor::set_threads(0, 1) == cores);
  CHECK(tensor::set_threads(0, 1000) == 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  CHECK(tensor::set_threads(0) == 3);
  CHECK(tensor::set_threads(1) == 1);
  CHECK(at::get_num_threads() == 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

TEST_CASE("precision by name") {
  const at::Device cpu(at::kCPU);
  CHECK(tensor::resolve_precision("fp32", cpu) == at::kFloat);
  CHECK(tensor::resolve_precision("BF16", cpu) == at::kBFloat16);
  CHECK(tensor::resolve_precision("bfloat16", cpu) == at::kBFloat16);
  CHECK_THROWS_AS(tensor::resolve_precision("fp16", cpu), core::InputError);
  CHECK_THROWS_AS(tensor::resolve_precision("int3", cpu), core::InputError);
  const auto features = tensor::cpu_features();
  const bool fast = features.avx512_bf16 || features.amx_bf16;
  CHECK(tensor::resolve_precision("auto", cpu) == (fast ? at::kBFloat16 : at::kFloat));
  CHECK(tensor::precision_name(at::kBFloat16) == "bf16");
  CHECK(tensor::precision_name(at::kFloat) == "fp32");
}

TEST_CASE("the features of this CPU agree with the kernel's list") {
  std::ifstream in("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto features = tensor::cpu_features();
  CHECK(features.avx2 == (text.find(" avx2 ") != std::string::npos));
  CHECK(features.avx512_bf16 == (text.find(" avx512_bf16 ") != std::string::npos));
  if (features.amx_bf16) CHECK(text.find(" amx_bf16 ") != std::string::npos);
}

TEST_CASE("autocast computes matrix products and convolutions in bf16, and ends with the guard") {
  const at::Device cpu(at::kCPU);
  const at::Tensor x = at::randn({4, 8, 9, 9});
  at::Tensor w = at::randn({8, 8, 3, 3});
  w.set_requires_grad(true);
  CHECK(at::conv2d(x, w).scalar_type() == at::kFloat);
  {
    const AutocastGuard guard(cpu, at::kBFloat16);
    const at::Tensor y = at::conv2d(x, w);
    CHECK(y.scalar_type() == at::kBFloat16);
    CHECK(at::linear(at::randn({2, 3}), at::randn({4, 3})).scalar_type() == at::kBFloat16);
    CHECK(at::mse_loss(y, y.detach()).scalar_type() == at::kFloat);  // on the fp32 list
    {
      const AutocastGuard off(cpu, at::kFloat);
      CHECK(at::conv2d(x, w).scalar_type() == at::kFloat);
    }
    CHECK(at::conv2d(x, w).scalar_type() == at::kBFloat16);
    // Gradients come back in the weight's type, also after the guard.
    y.to(at::kFloat).sum().backward();
  }
  CHECK(w.grad().scalar_type() == at::kFloat);
  CHECK(at::conv2d(x, w).scalar_type() == at::kFloat);
}

TEST_CASE("the cast of a weight is cached within a guard, not beyond") {
  const at::Device cpu(at::kCPU);
  const at::Tensor x = at::ones({1, 4});
  at::Tensor w = at::ones({1, 4});
  w.set_requires_grad(true);
  {
    const AutocastGuard guard(cpu, at::kBFloat16);
    CHECK(at::linear(x, w).item<float>() == 4);
  }
  {
    const at::NoGradGuard no_grad;
    w.fill_(2);
  }
  const AutocastGuard guard(cpu, at::kBFloat16);
  CHECK(at::linear(x, w).item<float>() == 8);
}

TEST_CASE("memory in use follows what is allocated") {
  const at::Device cpu(at::kCPU);
  tensor::reset_peak_memory(cpu);
  const std::size_t before = tensor::memory_in_use(cpu);
  constexpr std::int64_t kBytes = 64 << 20;
  {
    const at::Tensor big = at::ones({kBytes}, at::kByte);
    CHECK(tensor::memory_in_use(cpu) >= before + kBytes / 2);
  }
  CHECK(tensor::peak_memory(cpu) >= before + kBytes / 2);
}

TEST_CASE("seeds repeat, states go on") {
  const at::Device cpu(at::kCPU);
  tensor::seed(7);
  const at::Tensor first = at::rand({5});
  const std::string state = tensor::rng_state(cpu);
  const at::Tensor second = at::rand({5});
  tensor::seed(7);
  CHECK(at::equal(at::rand({5}), first));
  tensor::set_rng_state(cpu, state);
  CHECK(at::equal(at::rand({5}), second));
  CHECK_THROWS_AS(tensor::set_rng_state(cpu, state.substr(0, 100)), core::Error);
  CHECK_THROWS_AS(tensor::set_rng_state(cpu, ""), core::Error);
}
