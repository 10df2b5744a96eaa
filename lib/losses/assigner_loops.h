// Parts of the assigners' CPU loops. Arithmetic and its order are those of the tensor operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "losses/assigner.h"

namespace sgtrain::losses {

template <class T>
struct LoopBox {
  T x1, y1, x2, y2;
  static LoopBox at(const T* boxes, std::int64_t row) {
    return {boxes[row * 4], boxes[row * 4 + 1], boxes[row * 4 + 2], boxes[row * 4 + 3]};
  }
  T area() const { return std::max(x2 - x1, T(0)) * std::max(y2 - y1, T(0)); }
};

/// Intersection over union with `eps` added to the union.
template <class T>
T overlap_of(const LoopBox<T>& a, const LoopBox<T>& b, T eps) {
  const T w = std::max(std::min(a.x2, b.x2) - std::max(a.x1, b.x1), T(0));
  const T h = std::max(std::min(a.y2, b.y2) - std::max(a.y1, b.y1), T(0));
  const T shared = w * h;
  return shared / (a.area() + b.area() - shared + eps);
}

/// True when the point lies strictly inside.
template <class T>
bool contains(const LoopBox<T>& box, T x, T y) {
  constexpr T kEps = static_cast<T>(1e-9);
  return std::min(std::min(x - box.x1, box.x2 - x), std::min(y - box.y1, box.y2 - y)) > kEps;
}

/// Anchors whose points lie in the box, into the first places of `out`; returns how many.
template <class T>
std::int64_t collect_inside(const ImageView<T>& image, const LoopBox<T>& box,
                            std::vector<std::int64_t>& out) {
  std::int64_t count = 0;
  for (std::int64_t a = 0; a < image.num_anchors; ++a) {
    out[static_cast<std::size_t>(count)] = a;  // without a branch: kept only when inside
    count += contains(box, image.points[a * 2], image.points[a * 2 + 1]) ? 1 : 0;
  }
  return count;
}

/// Which object each anchor gets: the only one that wants it, or of several wishes the object of
/// the whole image that it overlaps most (the first of equals).
template <class T>
class LoopOwners {
 public:
  explicit LoopOwners(std::int64_t anchors)
      : count_(static_cast<std::size_t>(anchors), 0),
        owner_(static_cast<std::size_t>(anchors), -1) {}

  void want(std::int64_t anchor, std::int64_t object) {
    ++count_[static_cast<std::size_t>(anchor)];
    owner_[static_cast<std::size_t>(anchor)] = object;
  }

  /// Fills image.row. `boxes` [A, 4]: what the objects are compared with.
  void settle(const ImageView<T>& image, const T* boxes, T eps) {
    for (std::int64_t a = 0; a < image.num_anchors; ++a) {
      const auto place = static_cast<std::size_t>(a);
      image.row[a] = owner_[place];
      if (count_[place] < 2) continue;
      const auto box = LoopBox<T>::at(boxes, a);
      T best = -1;
      for (std::int64_t g = 0; g < image.num_objects; ++g) {
        const T overlap = overlap_of(LoopBox<T>::at(image.gt_boxes, g), box, eps);
        if (overlap > best) {
          best = overlap;
          image.row[a] = g;
        }
      }
    }
  }

 private:
  std::vector<std::int32_t> count_;
  std::vector<std::int64_t> owner_;
};

}  // namespace sgtrain::losses
