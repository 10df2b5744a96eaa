#include "train/epoch_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace sgtrain::train {
namespace {

std::string coloured_text(std::string text, int sign, bool coloured) {
  if (!coloured || sign == 0) return text;
  return fmt::format("\033[{}m{}\033[0m", sign > 0 ? 32 : 31, text);
}

/// "= 0.1200 (↗ 0.0034)"
std::string change_text(double before, double now, bool now_is_better, bool coloured) {
  const double change = now - before;
  const char* arrow = change > 0 ? "↗" : change < 0 ? "↘" : "=";
  const int sign = change == 0 ? 0 : now_is_better ? 1 : -1;
  return fmt::format("= {:.4f} ({})", before,
                     coloured_text(fmt::format("{} {:.4f}", arrow, change), sign, coloured));
}

}  // namespace

void EpochSummary::set_direction(const std::string& name, bool greater_is_better) {
  greater_is_better_[name] = greater_is_better;
}

bool EpochSummary::better(const std::string& name, double a, double b) const {
  const auto found = greater_is_better_.find(name);
  return found != greater_is_better_.end() && found->second ? a > b : a < b;
}

void EpochSummary::update(const std::string& branch_name, const NamedValues& values) {
  auto branch = std::find_if(branches_.begin(), branches_.end(),
                             [&](const Branch& b) { return b.name == branch_name; });
  if (branch == branches_.end()) branch = branches_.insert(branch, {branch_name, {}});
  for (const auto& [name, value] : values) {
    auto item = std::find_if(branch->values.begin(), branch->values.end(),
                             [&, &key = name](const auto& v) { return v.first == key; });
    if (item == branch->values.end()) item = branch->values.insert(item, {name, {}});
    Monitored& monitored = item->second;
    if (monitored.seen > 0) {
      const bool first = monitored.seen == 1;
      monitored.best = first || better(name, monitored.current, monitored.best) ? monitored.current
                                                                                : monitored.best;
      monitored.previous = monitored.current;
    }
    monitored.current = value;
    ++monitored.seen;
  }
}

std::string EpochSummary::render(int epoch, bool coloured) const {
  const std::string rule(59, '=');
  std::string out = fmt::format("{}\nSUMMARY OF EPOCH {}\n", rule, epoch);
  for (std::size_t b = 0; b < branches_.size(); ++b) {
    const bool last_branch = b + 1 == branches_.size();
    out += fmt::format("{} {}\n", last_branch ? "└──" : "├──", branches_[b].name);
    const std::string indent = last_branch ? "    " : "│   ";
    const auto& values = branches_[b].values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& [name, value] = values[i];
      const bool last = i + 1 == values.size();
      out += fmt::format("{}{} {} = {:.4f}\n", indent, last ? "└──" : "├──", name, value.current);
      if (value.seen < 2) continue;
      const std::string deep = indent + (last ? "    " : "│   ");
      out += fmt::format("{}├── Epoch N-1      {}\n", deep,
                         change_text(value.previous, value.current,
                                     better(name, value.current, value.previous), coloured));
      out += fmt::format("{}└── Best until now {}\n", deep,
                         change_text(value.best, value.current,
                                     better(name, value.current, value.best), coloured));
    }
  }
  return out + rule + "\n";
}

std::string EpochSummary::table(const NamedValues& averaged) const {
  std::string out;
  const auto cell = [](std::optional<double> value) {
    return value ? fmt::format("{:>14.6f}", *value) : fmt::format("{:>14}", "");
  };
  for (const Branch& branch : branches_) {
    if (branch.name == "Train" || branch.values.empty()) continue;
    out += fmt::format("{:<42}{:>14}{:>14}{}\n", branch.name, "last", "best",
                       averaged.empty() ? "" : fmt::format("{:>14}", "averaged"));
    for (const auto& [name, value] : branch.values) {
      const bool now = value.seen < 2 || better(name, value.current, value.best);
      const auto mean = branch.name == "Validation" ? value_of(averaged, name) : std::nullopt;
      out +=
          fmt::format("  {:<40}{}{}{}\n", name, cell(value.current),
                      cell(now ? value.current : value.best), averaged.empty() ? "" : cell(mean));
    }
  }
  return out;
}

tensor::Value EpochSummary::save() const {
  tensor::Value out = tensor::Value::dict();
  for (const Branch& branch : branches_) {
    tensor::Value values = tensor::Value::dict();
    for (const auto& [name, v] : branch.values)
      values.set(name, tensor::Value::list({v.current, v.previous, v.best, v.seen}));
    out.set(branch.name, values);
  }
  return out;
}

void EpochSummary::load(const tensor::Value& state) {
  branches_.clear();
  for (const auto& [branch, values] : state.pairs()) {
    branches_.push_back({branch.as_string(), {}});
    for (const auto& [name, v] : values.pairs()) {
      const auto& items = v.items();
      branches_.back().values.emplace_back(
          name.as_string(), Monitored{.current = items.at(0).as_double(),
                                      .previous = items.at(1).as_double(),
                                      .best = items.at(2).as_double(),
                                      .seen = static_cast<int>(items.at(3).as_int())});
    }
  }
}

}  // namespace sgtrain::train
