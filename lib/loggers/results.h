// The two plain files every run writes: results.csv, a row per epoch, and metrics.json, its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "loggers/logger.h"

namespace sgtrain::loggers {

/// results.csv: "epoch" and one column per tag (RFC 4180). Columns that appear later are appended
/// to the header (the file is rewritten atomically), earlier rows stay empty there. Continues an
/// existing file; rows of epochs that are written again (resume) are dropped.
class ResultsCsv {
 public:
  explicit ResultsCsv(std::filesystem::path file);
  /// One row; on disk when it returns. Numbers in their shortest exact form; NaN as "nan".
  void add_row(std::int64_t epoch, const Scalars& values);

 private:
  void read_existing();
  void rewrite() const;
  std::filesystem::path file_;
  std::vector<std::string> columns_;
  struct Row {
    std::int64_t epoch;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows_;
};

/// metrics.json: written atomically, whole, each time.
/// {"epoch": 12, "metrics": {...}, "best": {"epoch", "metric", "value"}, …extra strings}.
struct MetricsJson {
  std::int64_t epoch = 0;
  Scalars metrics{};
  std::string watched{};  // metric_to_watch; empty: no "best"
  std::int64_t best_epoch = -1;
  double best_value = 0;
  std::map<std::string, std::string> extra{};
};
void write_metrics_json(const std::filesystem::path& file, const MetricsJson& metrics);

}  // namespace sgtrain::loggers
