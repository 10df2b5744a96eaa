#include "metrics/coco/coco_eval.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "metrics/coco/coco_matching.h"

namespace sgtrain::metrics {
namespace {

using coco::ThresholdMask;

CocoParams with_defaults(CocoParams params) {
  if (params.iou_thresholds.empty()) {
    for (int i = 0; i < 10; ++i) params.iou_thresholds.push_back(0.5 + i * ((0.95 - 0.5) / 9));
    params.iou_thresholds.back() = 0.95;
  }
  if (params.recall_thresholds.empty()) {
    for (int i = 0; i <= 100; ++i) params.recall_thresholds.push_back(i * 0.01);
    params.recall_thresholds.back() = 1.0;
  }
  if (params.area_ranges.empty()) {
    constexpr double kSmall = 32.0 * 32.0, kMedium = 96.0 * 96.0, kHuge = 1e10;
    params.area_ranges = {{"all", 0, kHuge},
                          {"small", 0, kSmall},
                          {"medium", kSmall, kMedium},
                          {"large", kMedium, kHuge}};
  }
  if (params.max_detections.empty()) params.max_detections = {1, 10, 100};
  if (params.threads <= 0) {
    params.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (params.iou_thresholds.size() > coco::kMaxThresholds) {
    throw core::InputError("COCO scoring takes at most 16 IoU thresholds");
  }
  const bool sorted =
      std::is_sorted(params.iou_thresholds.begin(), params.iou_thresholds.end()) &&
      std::is_sorted(params.recall_thresholds.begin(), params.recall_thresholds.end()) &&
      std::is_sorted(params.max_detections.begin(), params.max_detections.end());
  if (!sorted || params.max_detections.front() < 1) {
    throw core::InputError(
        "COCO scoring takes thresholds and limits in increasing order, limits from 1");
  }
  return params;
}

/// Runs task(worker, i) for i in [0, count) on some threads; rethrows the first exception.
void parallel_for(std::size_t count, int threads, std::size_t grain,
                  const std::function<void(int, std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](int worker) {
    try {
      for (std::size_t begin = next.fetch_add(grain); begin < count;
           begin = next.fetch_add(grain)) {
        const std::size_t end = std::min(count, begin + grain);
        for (std::size_t i = begin; i < end; ++i) task(worker, i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> pool;
  const auto wanted =
      std::min<std::size_t>(static_cast<std::size_t>(threads), (count + grain - 1) / grain);
  for (std::size_t i = 1; i < wanted; ++i) pool.emplace_back(work, static_cast<int>(i));
  work(0);
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

/// Position of an id among sorted ids; -1 when absent. Ids in a narrow range are looked up
/// directly.
class IdIndex {
 public:
  explicit IdIndex(std::vector<std::int64_t> ids) : ids_(std::move(ids)) {
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    if (ids_.empty()) return;
    const auto range =
        static_cast<std::uint64_t>(ids_.back()) - static_cast<std::uint64_t>(ids_.front());
    if (range >= 16 * ids_.size() + 1'000'000) return;
    table_.assign(range + 1, -1);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      table_[static_cast<std::size_t>(ids_[i] - ids_.front())] = static_cast<std::int32_t>(i);
    }
  }
  std::int32_t operator()(std::int64_t id) const {
    if (ids_.empty() || id < ids_.front() || id > ids_.back()) return -1;
    if (!table_.empty()) return table_[static_cast<std::size_t>(id - ids_.front())];
    const auto place = std::lower_bound(ids_.begin(), ids_.end(), id);
    return *place == id ? static_cast<std::int32_t>(place - ids_.begin()) : -1;
  }
  std::size_t size() const { return ids_.size(); }

 private:
  std::vector<std::int64_t> ids_;
  std::vector<std::int32_t> table_;
};

/// Boxes grouped by image, in file order within each image.
struct ByImage {
  std::vector<coco::IndexedBox> boxes;
  std::vector<std::size_t> begin;  // [images + 1]
  std::span<const coco::IndexedBox> of(std::size_t image) const {
    return std::span(boxes).subspan(begin[image], begin[image + 1] - begin[image]);
  }
};

template <class Item, class Convert>
ByImage group(std::span<const Item> items, const IdIndex& images, const IdIndex& categories,
              Convert convert) {
  ByImage out;
  out.begin.assign(images.size() + 1, 0);
  std::vector<std::int32_t> image_of(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool known = categories(items[i].category) >= 0;
    image_of[i] = known ? images(items[i].image) : -1;
    if (image_of[i] >= 0) ++out.begin[static_cast<std::size_t>(image_of[i]) + 1];
  }
  for (std::size_t i = 1; i < out.begin.size(); ++i) out.begin[i] += out.begin[i - 1];
  out.boxes.resize(out.begin.back());
  std::vector<std::size_t> next(out.begin.begin(), out.begin.end() - 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (image_of[i] < 0) continue;
    out.boxes[next[static_cast<std::size_t>(image_of[i])]++] =
        convert(items[i], categories(items[i].category));
  }
  return out;
}

void check(const CocoGroundTruth& truth, std::span<const CocoDetection> detections,
           const IdIndex& images) {
  if (truth.images.empty()) {
    throw core::InputError("COCO scoring: the ground truth has no image", {},
                           "give the file whose images were predicted");
  }
  const auto finite = [](const auto& box, double value) {
    return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.w) &&
           std::isfinite(box.h) && std::isfinite(value);
  };
  for (const CocoObject& object : truth.objects) {
    if (!finite(object, object.area)) {
      throw core::InputError("COCO scoring: an object's box or area is not a finite number",
                             "image id " + std::to_string(object.image));
    }
  }
  for (const CocoDetection& detection : detections) {
    if (images(detection.image) < 0) {
      throw core::InputError(
          "COCO scoring: results for an image that the ground truth does not have",
          "image id " + std::to_string(detection.image),
          "score results against the ground truth of the same images");
    }
    if (!finite(detection, detection.score)) {
      throw core::InputError("COCO scoring: a detection's box or score is not a finite number",
                             "image id " + std::to_string(detection.image));
    }
  }
}

/// All detections of one category with what became of them, by falling score.
struct CategoryTable {
  std::vector<double> scores;
  std::vector<std::int32_t> ranks;
  std::vector<ThresholdMask> matched, ignored;  // [detections, A]
  std::vector<std::int64_t> positives;          // [A]
};

/// Appends what an image has of a category.
void append(const coco::ImageOutcomes& image, std::int32_t category, std::size_t areas,
            CategoryTable& table) {
  const auto place = std::lower_bound(image.categories.begin(), image.categories.end(), category);
  if (place != image.categories.end() && *place == category) {
    const auto row = static_cast<std::size_t>(place - image.categories.begin()) * areas;
    for (std::size_t a = 0; a < areas; ++a) table.positives[a] += image.positives[row + a];
  }
  const auto [first, last] = std::equal_range(
      image.detections.begin(), image.detections.end(), coco::Outcome{0, category, 0},
      [](const coco::Outcome& l, const coco::Outcome& r) { return l.category < r.category; });
  for (auto it = first; it != last; ++it) {
    table.scores.push_back(it->score);
    table.ranks.push_back(it->rank);
  }
  const auto begin = (first - image.detections.begin()) * static_cast<std::ptrdiff_t>(areas),
             end = (last - image.detections.begin()) * static_cast<std::ptrdiff_t>(areas);
  table.matched.insert(table.matched.end(), image.matched.begin() + begin,
                       image.matched.begin() + end);
  table.ignored.insert(table.ignored.end(), image.ignored.begin() + begin,
                       image.ignored.begin() + end);
}

std::vector<CategoryTable> collect(const std::vector<coco::ImageOutcomes>& images,
                                   std::size_t categories, std::size_t areas, int threads) {
  struct Place {
    double score;
    std::size_t index;
  };
  std::vector<CategoryTable> tables(categories);
  parallel_for(categories, threads, 1, [&](int, std::size_t c) {
    CategoryTable found;  // image by image
    found.positives.assign(areas, 0);
    for (const coco::ImageOutcomes& image : images)
      append(image, static_cast<std::int32_t>(c), areas, found);
    const std::size_t count = found.scores.size();
    std::vector<Place> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = {found.scores[i], i};
    std::sort(order.begin(), order.end(), [](const Place& l, const Place& r) {
      return l.score != r.score ? l.score > r.score : l.index < r.index;
    });
    CategoryTable& table = tables[c];
    table.positives = std::move(found.positives);
    table.scores.resize(count);
    table.ranks.resize(count);
    table.matched.resize(count * areas);
    table.ignored.resize(count * areas);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t from = order[i].index;
      table.scores[i] = order[i].score;
      table.ranks[i] = found.ranks[from];
      for (std::size_t a = 0; a < areas; ++a) {
        table.matched[i * areas + a] = found.matched[from * areas + a];
        table.ignored[i * areas + a] = found.ignored[from * areas + a];
      }
    }
  });
  return tables;
}

/// A right detection on the precision-recall curve.
struct CurvePoint {
  double precision, score;
};

/// Precision at each recall threshold, and the highest recall, for one category and area range.
class Accumulator {
 public:
  Accumulator(CocoResult& result, const std::vector<CategoryTable>& tables)
      : result_(result), tables_(tables) {}

  void operator()(std::size_t k, std::size_t a) const {
    const CategoryTable& table = tables_[k];
    if (table.positives[a] == 0) return;
    const CocoParams& params = result_.params;
    const std::size_t thresholds = params.iou_thresholds.size(), areas = params.area_ranges.size();
    std::vector<Count> counts(params.max_detections.size(), Count(thresholds));
    for (std::size_t i = 0; i < table.scores.size(); ++i) {
      const unsigned matched = table.matched[i * areas + a], ignored = table.ignored[i * areas + a];
      // A limit counts what the limits below it count.
      for (std::size_t m = counts.size(); m-- > 0 && table.ranks[i] < params.max_detections[m];)
        counts[m].add(matched, ignored, table.scores[i]);
    }
    for (std::size_t m = 0; m < counts.size(); ++m) {
      for (std::size_t t = 0; t < thresholds; ++t) {
        store(counts[m].curves[t], static_cast<double>(table.positives[a]), t, k, a, m);
      }
    }
  }

 private:
  /// Detections seen so far under one limit, by falling score.
  struct Count {
    explicit Count(std::size_t thresholds) : curves(thresholds) {}
    void add(unsigned matched, unsigned ignored, double score) {
      const unsigned either = matched | ignored;
      if (either == 0) {
        always_wrong += 1;
        return;
      }
      for (std::size_t t = 0; t < curves.size(); ++t)
        wrong[t] += static_cast<double>((~either >> t) & 1u);
      const unsigned counted = matched & ~ignored;
      for (std::size_t t = 0; counted >> t != 0; ++t) {
        if (((counted >> t) & 1u) == 0) continue;
        right[t] += 1;
        const double all = always_wrong + wrong[t] + right[t];
        curves[t].push_back({right[t] / (all + std::numeric_limits<double>::epsilon()), score});
      }
    }

    std::vector<std::vector<CurvePoint>> curves;
    std::array<double, coco::kMaxThresholds> right{}, wrong{};
    double always_wrong = 0;  // at every threshold: most detections, so counted once for all
  };

  /// Recall changes, and the envelope of precision has its maxima, only at right detections.
  void store(std::vector<CurvePoint>& curve, double positives, std::size_t t, std::size_t k,
             std::size_t a, std::size_t m) const {
    const CocoParams& params = result_.params;
    const std::size_t categories = result_.categories.size(), areas = params.area_ranges.size(),
                      limits = params.max_detections.size(),
                      recalls = params.recall_thresholds.size();
    result_.recall[((t * categories + k) * areas + a) * limits + m] =
        static_cast<double>(curve.size()) / positives;
    for (std::size_t i = curve.size(); i-- > 1;) {
      curve[i - 1].precision = std::max(curve[i - 1].precision, curve[i].precision);
    }
    std::size_t point = 0;
    for (std::size_t r = 0; r < recalls; ++r) {
      while (point < curve.size() &&
             static_cast<double>(point + 1) / positives < params.recall_thresholds[r]) {
        ++point;
      }
      const std::size_t place = (((t * recalls + r) * categories + k) * areas + a) * limits + m;
      result_.precision[place] = point < curve.size() ? curve[point].precision : 0.0;
      result_.scores[place] = point < curve.size() ? curve[point].score : 0.0;
    }
  }

  CocoResult& result_;
  const std::vector<CategoryTable>& tables_;
};

int index_of(const std::vector<CocoAreaRange>& ranges, std::string_view name) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

void summarize(CocoResult& result) {
  const CocoParams& params = result.params;
  const auto has_iou = [&](double iou) {
    return std::any_of(params.iou_thresholds.begin(), params.iou_thresholds.end(),
                       [&](double t) { return std::abs(t - iou) < 1e-9; });
  };
  const std::array<int, 4> areas = {
      index_of(params.area_ranges, "all"), index_of(params.area_ranges, "small"),
      index_of(params.area_ranges, "medium"), index_of(params.area_ranges, "large")};
  const auto precision = [&](int area, double iou = -1.0) {
    return area < 0 || (iou > 0 && !has_iou(iou)) ? -1.0 : result.average_precision(-1, iou, area);
  };
  const auto recall = [&](int area, int limit) {
    const bool has = area >= 0 && limit < static_cast<int>(params.max_detections.size());
    return has ? result.average_recall(-1, limit, area) : -1.0;
  };
  const int last = static_cast<int>(params.max_detections.size()) - 1;
  result.stats = {precision(areas[0]),    precision(areas[0], 0.5), precision(areas[0], 0.75),
                  precision(areas[1]),    precision(areas[2]),      precision(areas[3]),
                  recall(areas[0], 0),    recall(areas[0], 1),      recall(areas[0], 2),
                  recall(areas[1], last), recall(areas[2], last),   recall(areas[3], last)};
}

}  // namespace

const std::array<const char*, 12>& coco_stat_names() {
  static const std::array<const char*, 12> names = {
      "AP",   "AP50",  "AP75",   "AP_small", "AP_medium", "AP_large",
      "AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large"};
  return names;
}

CocoResult evaluate_coco(const CocoGroundTruth& truth, std::span<const CocoDetection> detections,
                         const CocoParams& params) {
  CocoResult result;
  result.params = with_defaults(params);
  const CocoParams& used = result.params;
  result.categories = truth.categories;
  std::stable_sort(result.categories.begin(), result.categories.end(),
                   [](const CocoCategory& a, const CocoCategory& b) { return a.id < b.id; });
  const auto same = [](const CocoCategory& a, const CocoCategory& b) { return a.id == b.id; };
  result.categories.erase(std::unique(result.categories.begin(), result.categories.end(), same),
                          result.categories.end());
  std::vector<std::int64_t> category_ids;
  for (const CocoCategory& category : result.categories) category_ids.push_back(category.id);
  const IdIndex images(truth.images), categories(category_ids);
  check(truth, detections, images);

  std::vector<coco::ImageOutcomes> outcomes(images.size());
  {
    const ByImage objects =
        group(std::span(truth.objects), images, categories,
              [](const CocoObject& o, std::int32_t category) {
                return coco::IndexedBox{o.x, o.y, o.w, o.h, o.area, category, o.crowd};
              });
    const ByImage found =
        group(detections, images, categories, [](const CocoDetection& d, std::int32_t category) {
          return coco::IndexedBox{d.x, d.y, d.w, d.h, d.score, category, false};
        });
    std::vector<coco::ImageMatcher> matchers(static_cast<std::size_t>(used.threads),
                                             coco::ImageMatcher(used));
    parallel_for(images.size(), used.threads, 8, [&](int worker, std::size_t i) {
      matchers[static_cast<std::size_t>(worker)].match(objects.of(i), found.of(i), outcomes[i]);
    });
  }
  const std::size_t t = used.iou_thresholds.size(), r = used.recall_thresholds.size(),
                    k = categories.size(), a = used.area_ranges.size(),
                    m = used.max_detections.size();
  const std::vector<CategoryTable> tables = collect(outcomes, k, a, used.threads);
  std::vector<coco::ImageOutcomes>().swap(outcomes);
  result.precision.assign(t * r * k * a * m, -1.0);
  result.scores.assign(t * r * k * a * m, -1.0);
  result.recall.assign(t * k * a * m, -1.0);
  const Accumulator accumulate(result, tables);
  parallel_for(k * a, used.threads, 1, [&](int, std::size_t i) { accumulate(i / a, i % a); });
  summarize(result);
  return result;
}

double CocoResult::average_precision(int category, double iou, int area) const {
  const std::size_t t = params.iou_thresholds.size(), r = params.recall_thresholds.size(),
                    k = categories.size(), a = params.area_ranges.size(),
                    m = params.max_detections.size();
  std::size_t only_t = t;
  if (iou >= 0) {
    const auto nearest = std::min_element(
        params.iou_thresholds.begin(), params.iou_thresholds.end(),
        [&](double left, double right) { return std::abs(left - iou) < std::abs(right - iou); });
    only_t = static_cast<std::size_t>(nearest - params.iou_thresholds.begin());
  }
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < t * r * k; ++i) {
    if (only_t < t && i / (r * k) != only_t) continue;
    if (category >= 0 && i % k != static_cast<std::size_t>(category)) continue;
    const double value = precision[(i * a + static_cast<std::size_t>(area)) * m + m - 1];
    if (value <= -1) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? -1.0 : sum / static_cast<double>(count);
}

double CocoResult::average_recall(int category, int limit, int area) const {
  const std::size_t t = params.iou_thresholds.size(), k = categories.size(),
                    a = params.area_ranges.size(), m = params.max_detections.size();
  const std::size_t limit_index = limit < 0 ? m - 1 : static_cast<std::size_t>(limit);
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < t * k; ++i) {
    if (category >= 0 && i % k != static_cast<std::size_t>(category)) continue;
    const double value = recall[(i * a + static_cast<std::size_t>(area)) * m + limit_index];
    if (value <= -1) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? -1.0 : sum / static_cast<double>(count);
}

}  // namespace sgtrain::metrics
