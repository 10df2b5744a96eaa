#include "nn/conv.h"

#include <limits>

namespace sgtrain::nn {

at::Tensor every_pixel(const at::Tensor& x, std::int64_t stride) {
  if (stride == 1) return x;
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  return x.slice(2, 0, kEnd, stride).slice(3, 0, kEnd, stride);
}

at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const ConvOptions& o) {
  const auto convolve = [&](const at::Tensor& input, std::int64_t stride) {
    return at::conv2d(input, weight, bias, {stride, stride}, {o.padding, o.padding},
                      {o.dilation, o.dilation}, o.groups);
  };
  const bool strided_point = o.kernel == 1 && o.stride > 1 && o.padding == 0;
  return strided_point ? convolve(every_pixel(x, o.stride), 1) : convolve(x, o.stride);
}

}  // namespace sgtrain::nn
