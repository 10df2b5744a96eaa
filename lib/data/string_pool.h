// Many short strings in one block of memory: file names of data sets with millions of images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::data {

class StringPool {
 public:
  void add(std::string_view text) {
    bytes_.append(text);
    ends_.push_back(bytes_.size());
  }
  void reserve(std::size_t count, std::size_t bytes) {
    ends_.reserve(count);
    bytes_.reserve(bytes);
  }
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](std::size_t index) const {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  void resize(std::size_t count) {
    if (count >= ends_.size()) return;
    ends_.resize(count);
    bytes_.resize(count == 0 ? 0 : ends_.back());
  }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace sgtrain::data
