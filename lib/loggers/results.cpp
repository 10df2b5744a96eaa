#include "loggers/results.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"

namespace sgtrain::loggers {
namespace {

constexpr std::uintmax_t kMostBytes = 256 << 20;  // of a file that is read back

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

void append_row(std::string& out, std::string first, const std::vector<std::string>& cells) {
  out += first;
  for (const std::string& cell : cells) out += "," + quoted(cell);
  out += '\n';
}

// Rows of cells; a last line without its end (a killed run) is left out.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool in_quotes = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_quotes) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else if (c == '"') {
        in_quotes = false;
      } else {
        row.back() += c;
      }
    } else if (c == '"') {
      in_quotes = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      rows.push_back(std::exchange(row, std::vector<std::string>(1)));
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  return rows;
}

std::optional<std::int64_t> to_int(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ResultsCsv::ResultsCsv(std::filesystem::path file) : file_(std::move(file)) {
  if (!std::filesystem::exists(file_)) return;
  read_existing();
  rewrite();  // without a torn last line, so that rows can be appended
}

void ResultsCsv::read_existing() {
  if (std::filesystem::file_size(file_) > kMostBytes) {
    throw core::Error("results file is larger than 256 MiB", file_.string(), "move it away");
  }
  std::ifstream in(file_, std::ios::binary);
  const auto rows = parse_csv({std::istreambuf_iterator<char>(in), {}});
  if (rows.empty()) return;
  if (rows[0][0] != "epoch") {
    throw core::Error("not a results file: its first column is '" + rows[0][0] + "', not 'epoch'",
                      file_.string(), "move it away");
  }
  columns_.assign(rows[0].begin() + 1, rows[0].end());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto epoch = to_int(rows[i][0]);
    if (!epoch) continue;
    Row row{*epoch, {rows[i].begin() + 1, rows[i].end()}};
    row.cells.resize(columns_.size());
    rows_.push_back(std::move(row));
  }
}

void ResultsCsv::add_row(std::int64_t epoch, const Scalars& values) {
  const auto again = std::remove_if(rows_.begin(), rows_.end(),
                                    [epoch](const Row& row) { return row.epoch >= epoch; });
  bool whole = again != rows_.end() || !std::filesystem::exists(file_);
  rows_.erase(again, rows_.end());
  Row row{epoch, std::vector<std::string>(columns_.size())};
  for (const auto& [tag, value] : values) {
    auto at = std::find(columns_.begin(), columns_.end(), tag);
    if (at == columns_.end()) {
      columns_.push_back(tag);
      at = columns_.end() - 1;
      row.cells.emplace_back();
      whole = true;
    }
    row.cells[static_cast<std::size_t>(at - columns_.begin())] = core::number_text(value);
  }
  rows_.push_back(std::move(row));
  for (Row& r : rows_) r.cells.resize(columns_.size());
  if (whole) return rewrite();

  std::string line;
  append_row(line, std::to_string(epoch), rows_.back().cells);
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << line << std::flush;
  if (!out) throw core::Error("cannot write", file_.string(), "check free space and rights");
}

void ResultsCsv::rewrite() const {
  std::string text;
  append_row(text, "epoch", columns_);
  for (const Row& row : rows_) append_row(text, std::to_string(row.epoch), row.cells);
  core::write_file_atomically(file_, text);
}

void write_metrics_json(const std::filesystem::path& file, const MetricsJson& metrics) {
  nlohmann::ordered_json out;
  out["epoch"] = metrics.epoch;
  out["metrics"] = nlohmann::ordered_json::object();
  for (const auto& [tag, value] : metrics.metrics) out["metrics"][tag] = value;
  if (!metrics.watched.empty()) {
    out["best"] = {
        {"epoch", metrics.best_epoch}, {"metric", metrics.watched}, {"value", metrics.best_value}};
  }
  for (const auto& [key, value] : metrics.extra) out[key] = value;
  core::write_file_atomically(
      file, out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace sgtrain::loggers
