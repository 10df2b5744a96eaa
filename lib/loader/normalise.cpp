#include "loader/normalise.h"

#include <ATen/Parallel.h>

#include <array>

#include "core/error.h"

namespace sgtrain::loader {
namespace {

/// Pixels are handled in runs of 8, so that the three channels' constants repeat in step with
/// vectors of 4, 8 or 16 floats.
constexpr std::int64_t kRun = 24;

__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3"))) void normalise_run(
    const std::uint8_t* pixels, std::int64_t runs, const float* mean, const float* std,
    float* out) {
  for (std::int64_t r = 0; r < runs; ++r, pixels += kRun, out += kRun) {
    for (std::int64_t i = 0; i < kRun; ++i) {
      out[i] = (static_cast<float>(pixels[i]) - mean[i]) / std[i];
    }
  }
}

void normalise_cpu(const std::uint8_t* pixels, std::int64_t values,
                   const data::Normalisation& normalisation, float* out) {
  std::array<float, kRun> mean{}, std{};
  for (std::size_t i = 0; i < kRun; ++i) {
    mean[i] = static_cast<float>(normalisation.mean[i % 3]);
    std[i] = static_cast<float>(normalisation.std[i % 3]);
  }
  const std::int64_t runs = values / kRun;
  at::parallel_for(0, runs, 4096, [&](std::int64_t begin, std::int64_t end) {
    normalise_run(pixels + begin * kRun, end - begin, mean.data(), std.data(), out + begin * kRun);
  });
  for (std::int64_t i = runs * kRun; i < values; ++i) {
    const auto c = static_cast<std::size_t>(i % 3);
    out[i] = (static_cast<float>(pixels[i]) - mean[c]) / std[c];
  }
}

}  // namespace

at::Tensor normalise(const at::Tensor& images, const data::Normalisation& normalisation,
                     at::ScalarType dtype) {
  if (images.dim() != 4 || images.size(3) != 3 || images.scalar_type() != at::kByte) {
    throw core::Error("normalisation wants uint8 images [B, H, W, 3]");
  }
  if (images.is_cpu()) {
    const at::Tensor bytes = images.contiguous();
    const at::Tensor out = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
    normalise_cpu(bytes.const_data_ptr<std::uint8_t>(), bytes.numel(), normalisation,
                  out.mutable_data_ptr<float>());
    // NHWC memory seen as NCHW is channels_last.
    return out.permute({0, 3, 1, 2}).to(dtype);
  }
  at::Tensor out = images.to(at::kFloat);
  const auto constant = [&](const std::array<double, 3>& values) {
    const std::array<float, 3> single{static_cast<float>(values[0]), static_cast<float>(values[1]),
                                      static_cast<float>(values[2])};
    return at::tensor(at::ArrayRef<float>(single), at::kFloat).to(images.device());
  };
  out.sub_(constant(normalisation.mean)).div_(constant(normalisation.std));
  return out.permute({0, 3, 1, 2}).to(dtype);
}

}  // namespace sgtrain::loader
