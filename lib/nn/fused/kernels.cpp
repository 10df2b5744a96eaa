#include "nn/fused/kernels.h"

namespace sgtrain::nn::kernels {
namespace {

template <class T>
const Table<T>& choose() {
#if defined(__x86_64__) && defined(SGTRAIN_KERNELS_X86)
  if (__builtin_cpu_supports("avx512bf16")) return avx512bf16::table<T>();
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return avx512::table<T>();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::table<T>();
#endif
  return base::table<T>();
}

}  // namespace

template <class T>
const Table<T>& table() {
  static const Table<T>& chosen = choose<T>();
  return chosen;
}
template const Table<float>& table<float>();
template const Table<double>& table<double>();
template const Table<Bf16>& table<Bf16>();

}  // namespace sgtrain::nn::kernels
