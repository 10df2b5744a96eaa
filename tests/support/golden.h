// Reading goldens and comparing with them.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::support {

inline std::filesystem::path golden(const std::string& relative) {
  return std::filesystem::path(SGTRAIN_GOLDEN_DIR) / relative;
}

/// Lines of a text file, split at `separator`.
inline std::vector<std::vector<std::string>> read_rows(const std::filesystem::path& path,
                                                       char separator) {
  std::ifstream file(path);
  if (!file) throw core::Error("cannot open the golden", path.string());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(core::split(line, separator));
  return rows;
}

/// Largest |a - b| over largest |b|.
inline double relative_to_max(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) throw core::Error("shapes differ");
  if (b.numel() == 0) return 0.0;
  const at::Tensor x = a.detach().to(at::kDouble).contiguous(),
                   y = b.detach().to(at::kDouble).contiguous();
  const double scale = y.abs().max().item<double>();
  const double difference = (x - y).abs().max().item<double>();
  return scale > 0 ? difference / scale : difference;
}

/// "2x3x64x64" as Python writes shapes; "scalar" for none.
inline std::string shape_text(const at::Tensor& t) {
  if (t.dim() == 0) return "scalar";
  std::string out;
  for (const auto size : t.sizes()) out += (out.empty() ? "" : "x") + std::to_string(size);
  return out;
}

}  // namespace sgtrain::support
