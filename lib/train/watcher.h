// What a callback may be besides: one that watches a metric, whose name is then checked before any
// data is read.
#pragma once

#include <string>

namespace sgtrain::train {

class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Name of the value that must be there, of training or validation; empty: none.
  virtual std::string watches() const = 0;
};

}  // namespace sgtrain::train
