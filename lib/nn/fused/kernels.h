// Loops over rows of channels ("channels_last" pixels) that normalise, add and activate in one
// pass, compiled once per instruction set and chosen at run time. Plain pointers: parallelism,
// shapes and gradients are the business of fused/norm_act.cpp.
//
// A row is one pixel's C channels; rows lie `stride` elements apart, so that a slice of a wider
// tensor is one too. Per-channel arrays ("coefficients") have C rounded up to kLanes elements.
#pragma once

#include <cstdint>

namespace sgtrain::nn::kernels {

inline constexpr std::int64_t kLanes = 16;

/// Storage of bfloat16; arithmetic is float.
struct Bf16 {
  std::uint16_t bits;
};

template <class T>
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<Bf16> {
  using type = float;
};
template <class T>
using Acc = typename Arithmetic<T>::type;

template <class T>
struct Rows {
  T* data = nullptr;  // null: there is none
  std::int64_t stride = 0;
  Rows from(std::int64_t row) const {
    return {data == nullptr ? nullptr : data + row * stride, stride};
  }
};

enum class Unit { kIdentity, kRelu, kRelu6 };
/// How a second operand r joins: not, act(z + r), or act(z) + alpha * r.
enum class Join { kNone, kInside, kOutside };

template <class T>
struct Table {
  using A = Acc<T>;
  /// Mean of the rows and sum of squared deviations from it; `rest` is working memory.
  void (*moments)(Rows<const T> x, std::int64_t rows, std::int64_t channels, A* mean, A* deviations,
                  A* rest);
  /// y = act(a x + b) joined with r; `copy`, when given, gets y too.
  void (*forward)(Unit act, Join join, Rows<const T> x, const A* a, const A* b, Rows<const T> r,
                  A alpha, Rows<T> y, Rows<T> copy, std::int64_t rows, std::int64_t channels);
  /// s = a x + b + r; `s` may be `r`.
  void (*add)(Rows<const T> x, const A* a, const A* b, Rows<const T> r, Rows<T> s,
              std::int64_t rows, std::int64_t channels);
  /// With h = g * act'(a x + b) (`y` given: act' taken from the output instead):
  /// sum_h += Σ h, sum_hx += Σ h (x - mean); `h` is written when given.
  void (*backward_sums)(Unit act, Rows<const T> g, Rows<const T> x, Rows<const T> y, const A* a,
                        const A* b, const A* mean, Rows<T> h, A* sum_h, A* sum_hx,
                        std::int64_t rows, std::int64_t channels);
  /// d = p h + q x + r with h as above (from a x + b).
  void (*backward_apply)(Unit act, Rows<const T> g, Rows<const T> x, const A* a, const A* b,
                         const A* p, const A* q, const A* r, Rows<T> d, std::int64_t rows,
                         std::int64_t channels);
  /// As backward_sums over s, and the same with t, which s was made of:
  /// sums[0..3] += Σ h, Σ h (s - mean_s), Σ h (t - mean_t), Σ (s - mean_s)(t - mean_t).
  void (*pair_sums)(Unit act, Rows<const T> g, Rows<const T> s, Rows<const T> t, const A* a,
                    const A* b, const A* mean_s, const A* mean_t, A* const sums[4],
                    std::int64_t rows, std::int64_t channels);
  /// d_s = p h + q s + r; d_t = pt d_s + qt t + rt. Coefficients in this order.
  void (*pair_apply)(Unit act, Rows<const T> g, Rows<const T> s, Rows<const T> t, const A* a,
                     const A* b, const A* const coefficients[6], Rows<T> d_s, Rows<T> d_t,
                     std::int64_t rows, std::int64_t channels);
  /// s += x + y; y may be absent.
  void (*sum)(Rows<T> s, Rows<const T> x, Rows<const T> y, std::int64_t rows,
              std::int64_t channels);
  /// Σ over all elements of x * y.
  double (*dot)(Rows<const T> x, Rows<const T> y, std::int64_t rows, std::int64_t channels);
};

/// The loops for this processor.
template <class T>
const Table<T>& table();

// One definition per instruction set (kernels_*.cpp).
namespace base {
template <class T>
const Table<T>& table();
}
namespace avx2 {
template <class T>
const Table<T>& table();
}
namespace avx512 {
template <class T>
const Table<T>& table();
}
namespace avx512bf16 {
template <class T>
const Table<T>& table();
}

}  // namespace sgtrain::nn::kernels
