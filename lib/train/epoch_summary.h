// The tree that closes an epoch, as SuperGradients prints it: each value with its change since the
// last epoch and since the best one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "train/resumable.h"
#include "train/state.h"

namespace sgtrain::train {

class EpochSummary final : public Resumable {
 public:
  /// Says in which direction a value is better (losses: lower).
  void set_direction(const std::string& name, bool greater_is_better);

  /// Takes the values of a branch ("Train", "Validation", "Test:coco"); call once per epoch.
  void update(const std::string& branch, const NamedValues& values);

  /// @param epoch    0-based
  /// @param coloured ANSI colours: better green, worse red
  std::string render(int epoch, bool coloured) const;

  /// What is left of a run: a line for each value but those of training, its last, its best, and
  /// that of the averaged model where `averaged` has one. Empty when there is none.
  std::string table(const NamedValues& averaged) const;

  tensor::Value save() const override;
  void load(const tensor::Value& state) override;

 private:
  struct Monitored {
    double current = 0, previous = 0, best = 0;  // best and previous: before this epoch
    int seen = 0;
  };
  struct Branch {
    std::string name;
    std::vector<std::pair<std::string, Monitored>> values;
  };
  bool better(const std::string& name, double a, double b) const;

  std::vector<Branch> branches_;
  std::map<std::string, bool> greater_is_better_;
};

}  // namespace sgtrain::train
