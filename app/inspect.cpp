#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "core/log.h"
#include "core/text.h"
#include "predict/load_model.h"
#include "tensor/checkpoint_file.h"
#include "tensor/safetensors.h"
#include "tensor/value.h"

namespace sgtrain::app {
namespace {

using tensor::Value;

std::string shape_of(const at::Tensor& t) {
  std::string text = std::string(c10::toString(t.scalar_type())) + " [";
  for (std::int64_t i = 0; i < t.dim(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(t.size(i));
  return text + "]";
}

std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNone:
      return "None";
    case Value::Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Value::Kind::kInt:
      return std::to_string(value.as_int());
    case Value::Kind::kFloat:
      return fmt::format("{}", value.as_double());
    case Value::Kind::kString: {
      const std::string& text = value.as_string();
      const auto line = text.substr(0, text.find('\n'));
      return "'" + (line.size() > 80 ? line.substr(0, 80) + "…" : line) +
             (line.size() < text.size() ? " …'" : "'");
    }
    case Value::Kind::kBytes:
      return fmt::format("{} bytes", value.as_bytes().size());
    case Value::Kind::kTensor:
      return shape_of(value.as_tensor());
    case Value::Kind::kObject:
      return "object of class " + value.type() + " (not run)";
    default:
      return {};
  }
}

std::string key_text(const Value& key) {
  return key.is_string() ? key.as_string() : scalar_text(key);
}

/// Tree down to `depth` levels; deeper parts as their number of entries.
void print(const std::string& name, const Value& value, int indent, int depth) {
  const std::string pad(static_cast<std::size_t>(indent) * 2, ' ');
  if (value.is_dict() || value.is_sequence()) {
    const std::size_t count = value.is_dict() ? value.pairs().size() : value.items().size();
    core::log::result("{}{}: {} {}\n", pad, name, count, value.is_dict() ? "entries" : "items");
    if (depth == 0) return;
    if (value.is_dict()) {
      for (const auto& [key, item] : value.pairs())
        print(key_text(key), item, indent + 1, depth - 1);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        print(std::to_string(i), value.items()[i], indent + 1, depth - 1);
    }
    return;
  }
  core::log::result("{}{}: {}\n", pad, name, scalar_text(value));
}

/// Class names that a checkpoint keeps, ours or SuperGradients'; empty: none.
std::vector<std::string> class_names(const Value& content) {
  for (const char* part : {"sgtrain", "processing_params"}) {
    const Value* holder = content.find(part);
    const Value* names = holder == nullptr ? nullptr : holder->find("class_names");
    if (names == nullptr || !names->is_sequence()) continue;
    std::vector<std::string> out;
    for (const Value& name : names->items()) out.push_back(key_text(name));
    if (!out.empty()) return out;
  }
  return {};
}

int inspect(const std::string& file, int depth) {
  if (tensor::is_safetensors(file)) {
    const auto content = tensor::read_safetensors(file);
    for (const auto& [key, text] : content.metadata) core::log::result("# {}: {}\n", key, text);
    for (const auto& [name, t] : content.tensors) core::log::result("{}: {}\n", name, shape_of(t));
    return 0;
  }
  const Value content = tensor::read_pth(file);
  print(file, content, 0, depth);
  if (const auto names = class_names(content); !names.empty())
    core::log::result("{} classes: {}\n", names.size(), core::join(names));
  return 0;
}

}  // namespace

void add_inspect(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "inspect", "What a .pth or .safetensors file holds; nothing in it is run");
  struct Options {
    std::string file;
    int depth = 1;
  };
  auto options = std::make_shared<Options>();
  command->add_option("checkpoint", options->file, "The file, or a run folder (its best)")
      ->required();
  command->add_option("--depth", options->depth, "Levels shown (3 shows every tensor)")
      ->check(CLI::Range(0, 100));
  command->callback([options, &action] {
    action = [options] {
      return inspect(predict::checkpoint_file(options->file).string(), options->depth);
    };
  });
}

}  // namespace sgtrain::app
