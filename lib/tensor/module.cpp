#include "tensor/module.h"

#include <algorithm>

#include "core/error.h"

namespace sgtrain::tensor {

at::Tensor Module::forward(const at::Tensor& input) {
  static_cast<void>(input);
  throw core::Error("this module does not take one tensor");
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

void Module::add_parameter(std::string name, at::Tensor& member, at::Tensor value) {
  member = std::move(value);
  if (member.defined()) member.set_requires_grad(true);
  entries_.push_back({std::move(name), &member, true, true});
}

void Module::add_buffer(std::string name, at::Tensor& member, at::Tensor value, bool persistent) {
  member = std::move(value);
  entries_.push_back({std::move(name), &member, false, persistent});
}

void Module::remove(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
  std::erase_if(children_, [&](const auto& child) { return child.first == name; });
}

Module* Module::child(std::string_view name) {
  for (auto& [own, module] : children_) {
    if (own == name) return module.get();
  }
  return nullptr;
}

void Module::collect(const std::string& prefix, bool non_persistent, std::vector<TensorRef>& out) {
  for (const bool parameters : {true, false}) {
    for (const Entry& entry : entries_) {
      if (entry.is_parameter != parameters || !entry.tensor->defined()) continue;
      if (!entry.persistent && !non_persistent) continue;
      out.push_back({prefix + entry.name, entry.tensor, entry.is_parameter});
    }
  }
  for (auto& [name, child] : children_) child->collect(prefix + name + ".", non_persistent, out);
}

std::vector<TensorRef> Module::state() {
  std::vector<TensorRef> out;
  collect("", false, out);
  return out;
}

std::vector<TensorRef> Module::named_parameters() {
  auto out = state();
  std::erase_if(out, [](const TensorRef& ref) { return !ref.is_parameter; });
  return out;
}

std::vector<TensorRef> Module::named_buffers() {
  std::vector<TensorRef> out;
  collect("", true, out);
  std::erase_if(out, [](const TensorRef& ref) { return ref.is_parameter; });
  return out;
}

std::vector<at::Tensor> Module::parameters() {
  std::vector<at::Tensor> out;
  for (const TensorRef& ref : named_parameters()) out.push_back(*ref.tensor);
  return out;
}

StateDict Module::state_dict() {
  StateDict out;
  for (const TensorRef& ref : state()) out.emplace_back(ref.name, ref.tensor->detach());
  return out;
}

namespace {
/// Parameters keep their identity (optimizers and reducers hold them): only their data changes.
void convert_all(Module& module, const std::function<at::Tensor(const at::Tensor&)>& convert) {
  for (const auto& refs : {module.named_parameters(), module.named_buffers()}) {
    for (const TensorRef& ref : refs) {
      const at::Tensor changed = convert(ref.tensor->detach());
      if (ref.is_parameter) {
        ref.tensor->set_data(changed);
      } else {
        *ref.tensor = changed;
      }
    }
  }
}
}  // namespace

void Module::to(at::ScalarType dtype) {
  convert_all(*this, [&](const at::Tensor& t) { return t.is_floating_point() ? t.to(dtype) : t; });
}

void Module::to(at::Device device) {
  convert_all(*this, [&](const at::Tensor& t) { return t.to(device); });
}

void Module::to_channels_last() {
  convert_all(*this, [&](const at::Tensor& t) {
    return t.dim() == 4 ? t.contiguous(at::MemoryFormat::ChannelsLast) : t;
  });
}

void Module::apply(const std::function<void(const std::string&, Module&)>& f) {
  const std::function<void(const std::string&, Module&)> walk = [&](const std::string& name,
                                                                    Module& module) {
    f(name, module);
    for (auto& [own, child] : module.children_) walk(name.empty() ? own : name + "." + own, *child);
  };
  walk("", *this);
}

at::Tensor Sequential::forward(const at::Tensor& input) {
  at::Tensor x = input;
  for (const auto& [name, child] : children()) x = child->forward(x);
  return x;
}

void copy_state(Module& from, Module& to) {
  const at::NoGradGuard no_grad;
  auto source = from.state();
  auto target = to.state();
  if (source.size() != target.size()) throw core::Error("the two modules differ in their state");
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i].name != target[i].name ||
        source[i].tensor->sizes() != target[i].tensor->sizes()) {
      throw core::Error("the two modules differ at '" + source[i].name + "' and '" +
                        target[i].name + "'");
    }
    target[i].tensor->copy_(*source[i].tensor);
  }
}

}  // namespace sgtrain::tensor
