// safetensors files for tests that do not link LibTorch.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "core/error.h"

namespace sgtrain::support {

struct PlainTensor {
  std::string dtype;  // "F32", "U8"
  std::vector<std::int64_t> shape;
  std::string bytes;

  template <class T>
  std::vector<T> values() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  /// uint8 [H, W, 3] as an image.
  cv::Mat image() const {
    if (dtype != "U8" || shape.size() != 3 || shape[2] != 3) throw core::Error("not an image");
    cv::Mat out(static_cast<int>(shape[0]), static_cast<int>(shape[1]), CV_8UC3);
    std::memcpy(out.data, bytes.data(), bytes.size());
    return out;
  }
};

inline std::map<std::string, PlainTensor> read_plain_safetensors(
    const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw core::Error("cannot open the golden", path.string());
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t length = 0;
  std::memcpy(&length, all.data(), sizeof(length));
  const auto header = nlohmann::json::parse(all.substr(8, length));
  std::map<std::string, PlainTensor> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    out[name] = {entry["dtype"], entry["shape"], all.substr(8 + length + begin, end - begin)};
  }
  return out;
}

}  // namespace sgtrain::support
