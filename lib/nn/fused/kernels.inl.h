// Definitions of the loops of kernels.h, included once per instruction set with
// SGTRAIN_KERNELS_NAMESPACE set. Includes nothing that defines inline functions used elsewhere:
// those could be linked into code for processors without these instructions.
#ifndef SGTRAIN_KERNELS_NAMESPACE
#error "include this from kernels_*.cpp"
#endif

#include "nn/fused/kernels.h"

namespace sgtrain::nn::kernels::SGTRAIN_KERNELS_NAMESPACE {
namespace {

#define SGTRAIN_INLINE static inline __attribute__((always_inline))

using Floats = float __attribute__((vector_size(64)));    // 16 lanes
using Doubles = double __attribute__((vector_size(64)));  // 8 lanes
using Words = std::uint32_t __attribute__((vector_size(64)));
using Halves = std::uint16_t __attribute__((vector_size(32)));

/// A vector of the arithmetic type, and how it is loaded from and stored to T.
template <class T>
struct Lane;

template <class Vector, class T>
SGTRAIN_INLINE Vector load_bytes(const T* p) {
  Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <>
struct Lane<float> {
  using Vector = Floats;
  static constexpr std::int64_t kWidth = 16;
  SGTRAIN_INLINE Vector load(const float* p) { return load_bytes<Vector>(p); }
  SGTRAIN_INLINE void store(float* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }
};

template <>
struct Lane<double> {
  using Vector = Doubles;
  static constexpr std::int64_t kWidth = 8;
  SGTRAIN_INLINE Vector load(const double* p) { return load_bytes<Vector>(p); }
  SGTRAIN_INLINE void store(double* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }
};

template <>
struct Lane<Bf16> {
  using Vector = Floats;
  static constexpr std::int64_t kWidth = 16;
  SGTRAIN_INLINE Vector load(const Bf16* p) {
    return (Vector)(__builtin_convertvector(load_bytes<Halves>(p), Words) << 16);
  }
  SGTRAIN_INLINE void store(Bf16* p, Vector v) {
#ifdef __AVX512BF16__
    const auto halves = __builtin_ia32_cvtneps2bf16_v16sf(v);
    static_assert(sizeof halves == 32);
    __builtin_memcpy(p, &halves, sizeof halves);
#else
    // Round to nearest, ties to even; a NaN stays one.
    const Words bits = (Words)v;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Words nan = (bits >> 16) | 0x40;
    const Words is_nan = (Words)(v != v);
    const Halves halves = __builtin_convertvector((rounded & ~is_nan) | (nan & is_nan), Halves);
    __builtin_memcpy(p, &halves, sizeof halves);
#endif
  }
};

/// The first n lanes; the rest is zero. n < kWidth.
template <class T>
SGTRAIN_INLINE typename Lane<T>::Vector load_some(const T* p, std::int64_t n) {
  T lanes[Lane<T>::kWidth] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Lane<T>::load(lanes);
}
template <class T>
SGTRAIN_INLINE void store_some(T* p, typename Lane<T>::Vector v, std::int64_t n) {
  T lanes[Lane<T>::kWidth];
  Lane<T>::store(lanes, v);
  for (std::int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

/// Access to one vector of a row, whole or the row's rest.
template <class T>
struct Whole {
  using V = typename Lane<T>::Vector;
  SGTRAIN_INLINE V load(const T* p, std::int64_t) { return Lane<T>::load(p); }
  SGTRAIN_INLINE void store(T* p, V v, std::int64_t) { Lane<T>::store(p, v); }
};
template <class T>
struct Rest {
  using V = typename Lane<T>::Vector;
  SGTRAIN_INLINE V load(const T* p, std::int64_t n) { return load_some(p, n); }
  SGTRAIN_INLINE void store(T* p, V v, std::int64_t n) { store_some(p, v, n); }
};

/// Calls f(access, row, channel, lanes) for every vector of every row.
template <class T, class F>
SGTRAIN_INLINE void each_vector(std::int64_t rows, std::int64_t channels, F f) {
  constexpr std::int64_t kWidth = Lane<T>::kWidth;
  const std::int64_t whole = channels - channels % kWidth;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < whole; c += kWidth) f(Whole<T>{}, row, c, kWidth);
    if (whole < channels) f(Rest<T>{}, row, whole, channels - whole);
  }
}

/// For sums over rows: calls f(access, row, count, channel, lanes) with groups of up to four rows,
/// so that the accumulators are loaded and stored once per group.
template <class T, class F>
SGTRAIN_INLINE void each_group(std::int64_t rows, std::int64_t channels, F f) {
  constexpr std::int64_t kWidth = Lane<T>::kWidth;
  const std::int64_t whole = channels - channels % kWidth;
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (std::int64_t c = 0; c < whole; c += kWidth) f(Whole<T>{}, row, 4, c, kWidth);
    if (whole < channels) f(Rest<T>{}, row, 4, whole, channels - whole);
  }
  for (; row < rows; ++row) {
    for (std::int64_t c = 0; c < whole; c += kWidth) f(Whole<T>{}, row, 1, c, kWidth);
    if (whole < channels) f(Rest<T>{}, row, 1, whole, channels - whole);
  }
}

template <class V>
SGTRAIN_INLINE V coefficient(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
SGTRAIN_INLINE void accumulate(void* p, V v) {
  const V sum = coefficient<V>(p) + v;
  __builtin_memcpy(p, &sum, sizeof sum);
}

template <Unit act, class V>
SGTRAIN_INLINE V activate(V z) {
  const V zero = {};
  if constexpr (act == Unit::kIdentity) return z;
  // "z > 0 ? z : 0" would turn NaN into 0 and hide it.
  V y = z < zero ? zero : z;
  if constexpr (act == Unit::kRelu6) y = y > zero + 6 ? zero + 6 : y;
  return y;
}

/// g where the activation's slope is one at z, else zero.
template <Unit act, class V>
SGTRAIN_INLINE V gate(V g, V z) {
  const V zero = {};
  if constexpr (act == Unit::kIdentity) return g;
  V h = z > zero ? g : zero;
  if constexpr (act == Unit::kRelu6) h = z < zero + 6 ? h : zero;
  return h;
}

// ------------------------------------------------------------------ loops

template <class T>
void moments(Rows<const T> x, std::int64_t rows, std::int64_t channels, Acc<T>* mean,
             Acc<T>* deviations, Acc<T>* rest) {
  using V = typename Lane<T>::Vector;
  const std::int64_t padded = (channels + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t c = 0; c < padded; ++c) mean[c] = deviations[c] = rest[c] = 0;
  each_group<T>(
      rows, channels,
      [&](auto access, std::int64_t row, std::int64_t count, std::int64_t c, std::int64_t n) {
        V sum = {};
        for (std::int64_t i = 0; i < count; ++i)
          sum += access.load(x.data + (row + i) * x.stride + c, n);
        accumulate(mean + c, sum);
      });
  const Acc<T> scale = Acc<T>(1) / static_cast<Acc<T>>(rows);
  for (std::int64_t c = 0; c < padded; ++c) mean[c] *= scale;
  each_group<T>(
      rows, channels,
      [&](auto access, std::int64_t row, std::int64_t count, std::int64_t c, std::int64_t n) {
        const V m = coefficient<V>(mean + c);
        V sum = {}, squares = {};
        for (std::int64_t i = 0; i < count; ++i) {
          const V d = access.load(x.data + (row + i) * x.stride + c, n) - m;
          sum += d;
          squares += d * d;
        }
        accumulate(rest + c, sum);
        accumulate(deviations + c, squares);
      });
  // What the rounding of the first sum left out.
  for (std::int64_t c = 0; c < channels; ++c) {
    deviations[c] -= rest[c] * rest[c] * scale;
    mean[c] += rest[c] * scale;
  }
}

template <class T, Unit act, Join join>
void forward_loop(Rows<const T> x, const Acc<T>* a, const Acc<T>* b, Rows<const T> r, Acc<T> alpha,
                  Rows<T> y, Rows<T> copy, std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  each_vector<T>(rows, channels,
                 [&](auto access, std::int64_t row, std::int64_t c, std::int64_t n) {
                   V z = coefficient<V>(a + c) * access.load(x.data + row * x.stride + c, n) +
                         coefficient<V>(b + c);
                   if constexpr (join == Join::kInside)
                     z += access.load(r.data + row * r.stride + c, n);
                   V out = activate<act>(z);
                   if constexpr (join == Join::kOutside)
                     out += alpha * access.load(r.data + row * r.stride + c, n);
                   access.store(y.data + row * y.stride + c, out, n);
                   if (copy.data != nullptr)
                     access.store(copy.data + row * copy.stride + c, out, n);
                 });
}

template <class T, Unit act>
void forward_join(Join join, Rows<const T> x, const Acc<T>* a, const Acc<T>* b, Rows<const T> r,
                  Acc<T> alpha, Rows<T> y, Rows<T> copy, std::int64_t rows, std::int64_t channels) {
  switch (join) {
    case Join::kNone:
      return forward_loop<T, act, Join::kNone>(x, a, b, r, alpha, y, copy, rows, channels);
    case Join::kInside:
      return forward_loop<T, act, Join::kInside>(x, a, b, r, alpha, y, copy, rows, channels);
    case Join::kOutside:
      return forward_loop<T, act, Join::kOutside>(x, a, b, r, alpha, y, copy, rows, channels);
  }
}

template <class T>
void forward(Unit act, Join join, Rows<const T> x, const Acc<T>* a, const Acc<T>* b,
             Rows<const T> r, Acc<T> alpha, Rows<T> y, Rows<T> copy, std::int64_t rows,
             std::int64_t channels) {
  switch (act) {
    case Unit::kIdentity:
      return forward_join<T, Unit::kIdentity>(join, x, a, b, r, alpha, y, copy, rows, channels);
    case Unit::kRelu:
      return forward_join<T, Unit::kRelu>(join, x, a, b, r, alpha, y, copy, rows, channels);
    case Unit::kRelu6:
      return forward_join<T, Unit::kRelu6>(join, x, a, b, r, alpha, y, copy, rows, channels);
  }
}

template <class T>
void add(Rows<const T> x, const Acc<T>* a, const Acc<T>* b, Rows<const T> r, Rows<T> s,
         std::int64_t rows, std::int64_t channels) {
  forward_loop<T, Unit::kIdentity, Join::kInside>(x, a, b, r, 0, s, {}, rows, channels);
}

template <class T, Unit act>
void backward_sums_loop(Rows<const T> g, Rows<const T> x, Rows<const T> y, const Acc<T>* a,
                        const Acc<T>* b, const Acc<T>* mean, Rows<T> h, Acc<T>* sum_h,
                        Acc<T>* sum_hx, std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  const bool from_output = y.data != nullptr, writes = h.data != nullptr;
  each_group<T>(
      rows, channels,
      [&](auto access, std::int64_t row, std::int64_t count, std::int64_t c, std::int64_t n) {
        const V scale = coefficient<V>(a + c), shift = coefficient<V>(b + c),
                m = coefficient<V>(mean + c);
        V sum = {}, product = {};
        for (std::int64_t i = row; i < row + count; ++i) {
          const V value = access.load(x.data + i * x.stride + c, n);
          const V z =
              from_output ? access.load(y.data + i * y.stride + c, n) : scale * value + shift;
          const V slope = gate<act>(access.load(g.data + i * g.stride + c, n), z);
          if (writes) access.store(h.data + i * h.stride + c, slope, n);
          sum += slope;
          product += slope * (value - m);
        }
        accumulate(sum_h + c, sum);
        accumulate(sum_hx + c, product);
      });
}

template <class T>
void backward_sums(Unit act, Rows<const T> g, Rows<const T> x, Rows<const T> y, const Acc<T>* a,
                   const Acc<T>* b, const Acc<T>* mean, Rows<T> h, Acc<T>* sum_h, Acc<T>* sum_hx,
                   std::int64_t rows, std::int64_t channels) {
  switch (act) {
    case Unit::kIdentity:
      return backward_sums_loop<T, Unit::kIdentity>(g, x, y, a, b, mean, h, sum_h, sum_hx, rows,
                                                    channels);
    case Unit::kRelu:
      return backward_sums_loop<T, Unit::kRelu>(g, x, y, a, b, mean, h, sum_h, sum_hx, rows,
                                                channels);
    case Unit::kRelu6:
      return backward_sums_loop<T, Unit::kRelu6>(g, x, y, a, b, mean, h, sum_h, sum_hx, rows,
                                                 channels);
  }
}

template <class T, Unit act>
void backward_apply_loop(Rows<const T> g, Rows<const T> x, const Acc<T>* a, const Acc<T>* b,
                         const Acc<T>* p, const Acc<T>* q, const Acc<T>* r, Rows<T> d,
                         std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  each_vector<T>(
      rows, channels, [&](auto access, std::int64_t row, std::int64_t c, std::int64_t n) {
        const V value = access.load(x.data + row * x.stride + c, n);
        const V z = coefficient<V>(a + c) * value + coefficient<V>(b + c);
        const V h = gate<act>(access.load(g.data + row * g.stride + c, n), z);
        access.store(
            d.data + row * d.stride + c,
            coefficient<V>(p + c) * h + coefficient<V>(q + c) * value + coefficient<V>(r + c), n);
      });
}

template <class T>
void backward_apply(Unit act, Rows<const T> g, Rows<const T> x, const Acc<T>* a, const Acc<T>* b,
                    const Acc<T>* p, const Acc<T>* q, const Acc<T>* r, Rows<T> d, std::int64_t rows,
                    std::int64_t channels) {
  switch (act) {
    case Unit::kIdentity:
      return backward_apply_loop<T, Unit::kIdentity>(g, x, a, b, p, q, r, d, rows, channels);
    case Unit::kRelu:
      return backward_apply_loop<T, Unit::kRelu>(g, x, a, b, p, q, r, d, rows, channels);
    case Unit::kRelu6:
      return backward_apply_loop<T, Unit::kRelu6>(g, x, a, b, p, q, r, d, rows, channels);
  }
}

template <class T, Unit act>
void pair_sums_loop(Rows<const T> g, Rows<const T> s, Rows<const T> t, const Acc<T>* a,
                    const Acc<T>* b, const Acc<T>* mean_s, const Acc<T>* mean_t,
                    Acc<T>* const sums[4], std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  each_group<T>(
      rows, channels,
      [&](auto access, std::int64_t row, std::int64_t count, std::int64_t c, std::int64_t n) {
        const V scale = coefficient<V>(a + c), shift = coefficient<V>(b + c);
        const V ms = coefficient<V>(mean_s + c), mt = coefficient<V>(mean_t + c);
        V sum_h = {}, sum_hs = {}, sum_ht = {}, sum_st = {};
        for (std::int64_t i = row; i < row + count; ++i) {
          const V value = access.load(s.data + i * s.stride + c, n);
          const V h = gate<act>(access.load(g.data + i * g.stride + c, n), scale * value + shift);
          const V u = value - ms;
          const V v = access.load(t.data + i * t.stride + c, n) - mt;
          sum_h += h;
          sum_hs += h * u;
          sum_ht += h * v;
          sum_st += u * v;
        }
        // Lanes beyond the row's end hold -mean, whose product is no part of any sum that is read.
        accumulate(sums[0] + c, sum_h);
        accumulate(sums[1] + c, sum_hs);
        accumulate(sums[2] + c, sum_ht);
        accumulate(sums[3] + c, sum_st);
      });
}

template <class T>
void pair_sums(Unit act, Rows<const T> g, Rows<const T> s, Rows<const T> t, const Acc<T>* a,
               const Acc<T>* b, const Acc<T>* mean_s, const Acc<T>* mean_t, Acc<T>* const sums[4],
               std::int64_t rows, std::int64_t channels) {
  switch (act) {
    case Unit::kIdentity:
      return pair_sums_loop<T, Unit::kIdentity>(g, s, t, a, b, mean_s, mean_t, sums, rows,
                                                channels);
    case Unit::kRelu:
      return pair_sums_loop<T, Unit::kRelu>(g, s, t, a, b, mean_s, mean_t, sums, rows, channels);
    case Unit::kRelu6:
      return pair_sums_loop<T, Unit::kRelu6>(g, s, t, a, b, mean_s, mean_t, sums, rows, channels);
  }
}

template <class T, Unit act>
void pair_apply_loop(Rows<const T> g, Rows<const T> s, Rows<const T> t, const Acc<T>* a,
                     const Acc<T>* b, const Acc<T>* const k[6], Rows<T> d_s, Rows<T> d_t,
                     std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  each_vector<T>(
      rows, channels, [&](auto access, std::int64_t row, std::int64_t c, std::int64_t n) {
        const V value = access.load(s.data + row * s.stride + c, n);
        const V z = coefficient<V>(a + c) * value + coefficient<V>(b + c);
        const V h = gate<act>(access.load(g.data + row * g.stride + c, n), z);
        const V ds = coefficient<V>(k[0] + c) * h + coefficient<V>(k[1] + c) * value +
                     coefficient<V>(k[2] + c);
        const V dt = coefficient<V>(k[3] + c) * ds +
                     coefficient<V>(k[4] + c) * access.load(t.data + row * t.stride + c, n) +
                     coefficient<V>(k[5] + c);
        access.store(d_s.data + row * d_s.stride + c, ds, n);
        access.store(d_t.data + row * d_t.stride + c, dt, n);
      });
}

template <class T>
void pair_apply(Unit act, Rows<const T> g, Rows<const T> s, Rows<const T> t, const Acc<T>* a,
                const Acc<T>* b, const Acc<T>* const k[6], Rows<T> d_s, Rows<T> d_t,
                std::int64_t rows, std::int64_t channels) {
  switch (act) {
    case Unit::kIdentity:
      return pair_apply_loop<T, Unit::kIdentity>(g, s, t, a, b, k, d_s, d_t, rows, channels);
    case Unit::kRelu:
      return pair_apply_loop<T, Unit::kRelu>(g, s, t, a, b, k, d_s, d_t, rows, channels);
    case Unit::kRelu6:
      return pair_apply_loop<T, Unit::kRelu6>(g, s, t, a, b, k, d_s, d_t, rows, channels);
  }
}

template <class T>
void sum(Rows<T> s, Rows<const T> x, Rows<const T> y, std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  const bool second = y.data != nullptr;
  each_vector<T>(rows, channels,
                 [&](auto access, std::int64_t row, std::int64_t c, std::int64_t n) {
                   T* at = s.data + row * s.stride + c;
                   V total = access.load(at, n) + access.load(x.data + row * x.stride + c, n);
                   if (second) total += access.load(y.data + row * y.stride + c, n);
                   access.store(at, total, n);
                 });
}

template <class T>
double dot(Rows<const T> x, Rows<const T> y, std::int64_t rows, std::int64_t channels) {
  using V = typename Lane<T>::Vector;
  double total = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    V sum = {};
    each_vector<T>(1, channels, [&](auto access, std::int64_t, std::int64_t c, std::int64_t n) {
      sum +=
          access.load(x.data + row * x.stride + c, n) * access.load(y.data + row * y.stride + c, n);
    });
    for (std::int64_t i = 0; i < Lane<T>::kWidth; ++i) total += static_cast<double>(sum[i]);
  }
  return total;
}

}  // namespace

template <class T>
const Table<T>& table() {
  static constexpr Table<T> kTable{
      moments<T>,    forward<T>, add<T>, backward_sums<T>, backward_apply<T>, pair_sums<T>,
      pair_apply<T>, sum<T>,     dot<T>};
  return kTable;
}
template const Table<float>& table<float>();
template const Table<double>& table<double>();
template const Table<Bf16>& table<Bf16>();

}  // namespace sgtrain::nn::kernels::SGTRAIN_KERNELS_NAMESPACE
