// Counter-based random numbers: every draw is a pure function of a key and of how many draws came
// before, so that results do not depend on threads, processes or what other samples drew.
// Generator: SplitMix64 over (key + counter * golden ratio), Steele et al., "Fast splittable
// pseudorandom number generators", OOPSLA 2014; it passes BigCrush.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace sgtrain::core {

/// Finaliser of SplitMix64: a bijection whose output bits all depend on all input bits.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

class Random {
 public:
  /// Same parts, same stream: `Random({seed, epoch, index})`. The number of parts counts too.
  Random(std::initializer_list<std::uint64_t> parts) {
    for (const std::uint64_t part : parts) key_ = mix64(key_ + kStep) ^ mix64(part + kStep);
    key_ = mix64(key_ + parts.size());
  }

  std::uint64_t bits() {
    ++draws_;
    return mix64(key_ + draws_ * kStep);
  }
  /// How many numbers were drawn (a disabled transform draws none).
  std::uint64_t draws() const { return draws_; }

  /// In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  /// In [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, n), n > 0. Bias below 2^-64 * n (multiply-shift).
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(bits()) * static_cast<std::uint64_t>(n)) >> 64);
  }
  /// True with probability p. p <= 0 and p >= 1 draw nothing.
  bool chance(double p) {
    if (p <= 0.0) return false;
    if (p >= 1.0) return true;
    return uniform() < p;
  }
  /// Normal distribution (Box and Muller 1958; one of the pair, so that a draw costs a fixed
  /// count).
  double normal(double mean = 0.0, double deviation = 1.0) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return mean + deviation * radius * std::cos(2.0 * 3.14159265358979323846 * uniform());
  }
  /// Gamma(shape, 1), Marsaglia and Tsang 2000.
  double gamma(double shape) {
    if (shape < 1.0) return gamma(shape + 1.0) * std::pow(1.0 - uniform(), 1.0 / shape);
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
      const double x = normal();
      const double v = std::pow(1.0 + c * x, 3);
      if (v > 0.0 && std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v;
      }
    }
  }
  /// Beta(a, b).
  double beta(double a, double b) {
    const double x = gamma(a);
    const double y = gamma(b);
    return x + y > 0.0 ? x / (x + y) : 0.5;
  }
  /// Fisher and Yates.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
  std::uint64_t key_ = 0;
  std::uint64_t draws_ = 0;
};

}  // namespace sgtrain::core
