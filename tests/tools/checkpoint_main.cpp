// checkpoint_tool copy IN OUT: reads a .pth file and writes what was read. For tests with Python.
// checkpoint_tool compare A B: two checkpoints of a run hold the same, bit by bit, apart from the
// recipe's text; exit code 1 and the first keys that differ otherwise.
// checkpoint_tool distance A B: the greatest relative difference (norms) of their weights, those of
// the moving average included.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "core/error.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"

namespace {

using sgtrain::tensor::Value;

/// Number of differences; each is printed.
int compare(const std::string& path, const Value& a, const Value& b) {
  if (path == "/sgtrain/recipe") return 0;
  if (a.is_dict() && b.is_dict()) {
    int different = 0;
    for (const auto& [key, item] : a.pairs()) {
      if (!key.is_string()) continue;
      const Value* other = b.find(key.as_string());
      const std::string name = path + "/" + key.as_string();
      if (other == nullptr) {
        std::printf("%s: only in the first\n", name.c_str());
        ++different;
      } else {
        different += compare(name, item, *other);
      }
    }
    if (a.pairs().size() != b.pairs().size()) {
      std::printf("%s: %zu and %zu entries\n", path.c_str(), a.pairs().size(), b.pairs().size());
      ++different;
    }
    if (different > 0 || sgtrain::tensor::same(a, b)) return different;
    if (path.empty() || path == "/sgtrain") return 0;  // the recipe
  } else if (sgtrain::tensor::same(a, b)) {
    return 0;
  }
  std::printf("%s: differs\n", path.c_str());
  return 1;
}

double distance(const sgtrain::tensor::StateDict& a, const sgtrain::tensor::StateDict& b) {
  if (a.size() != b.size()) throw sgtrain::core::Error("not the same number of tensors");
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].second.to(at::kDouble), y = b[i].second.to(at::kDouble);
    const double off = (x - y).norm().item<double>() / std::max(y.norm().item<double>(), 1e-3);
    if (!(off <= worst)) std::printf("%s %.3g\n", a[i].first.c_str(), worst = off);
  }
  return worst;
}

int print_distance(const char* first, const char* second) {
  using sgtrain::tensor::Checkpoint;
  const Checkpoint a = Checkpoint::read(first), b = Checkpoint::read(second);
  double worst = distance(a.net, b.net);
  if (a.ema_net && b.ema_net) worst = std::max(worst, distance(*a.ema_net, *b.ema_net));
  std::printf("distance %.3e\n", worst);
  return 0;
}

int run(std::string_view command, const char* first, const char* second) {
  if (command == "distance") return print_distance(first, second);
  const Value a = sgtrain::tensor::read_pth(first);
  if (command == "compare") return compare("", a, sgtrain::tensor::read_pth(second)) > 0 ? 1 : 0;
  sgtrain::tensor::write_pth(second, a);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc == 4 ? argv[1] : "";
  if (command != "copy" && command != "compare" && command != "distance") {
    std::fputs("usage: checkpoint_tool copy IN OUT | compare A B | distance A B\n", stderr);
    return 2;
  }
  try {
    return run(command, argv[2], argv[3]);
  } catch (const sgtrain::core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
