// Mean of named numbers, weighted by images.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/state.h"

namespace sgtrain::train {

class Averages {
 public:
  void add(const std::vector<double>& values, double weight) {
    sums_.resize(values.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) sums_[i] += values[i] * weight;
    weight_ += weight;
  }
  bool empty() const { return weight_ == 0.0; }
  std::vector<double> means() const {
    std::vector<double> out = sums_;
    for (double& value : out) value /= weight_;
    return out;
  }
  NamedValues named(const std::vector<std::string>& names) const {
    NamedValues out;
    const auto values = empty() ? std::vector<double>{} : means();
    for (std::size_t i = 0; i < values.size() && i < names.size(); ++i)
      out.emplace_back(names[i], values[i]);
    return out;
  }
  const std::vector<double>& sums() const { return sums_; }
  double weight() const { return weight_; }
  void restore(std::vector<double> sums, double weight) {
    sums_ = std::move(sums);
    weight_ = weight;
  }

 private:
  std::vector<double> sums_;
  double weight_ = 0.0;
};

}  // namespace sgtrain::train
