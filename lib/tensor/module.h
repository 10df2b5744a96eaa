// The base of every network part. Unlike torch::nn::Module it keeps parameters, buffers and
// children in one order of registration, so that a state_dict has exactly the names and order of
// Python's; buffers may be non-persistent; and no TU needs LibTorch's module headers.
//
//   class ConvBNReLU : public tensor::Module {
//    public:
//     ConvBNReLU(int in, int out) : conv(add<Conv2d>("conv", …)), bn(add<BatchNorm2d>("bn", out))
//     {} at::Tensor forward(const at::Tensor& x) override { return
//     at::relu(bn.forward(conv.forward(x))); } Conv2d& conv; BatchNorm2d& bn;
//   };
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::tensor {

/// A named handle on a tensor that a module owns; writing through `tensor` rebinds the member.
struct TensorRef {
  std::string name;              // full dotted name, "backbone.stem.conv.weight"
  at::Tensor* tensor = nullptr;  // the member itself
  bool is_parameter = false;
};

using StateDict = std::vector<std::pair<std::string, at::Tensor>>;  // in Python's order

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// One tensor in, one out. Modules with another signature offer their own method instead;
  /// calling this one on them is an error.
  virtual at::Tensor forward(const at::Tensor& input);

  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }

  /// Parameters and persistent buffers, module by module (own parameters, own buffers, children):
  /// the order of Python's state_dict().
  std::vector<TensorRef> state();
  std::vector<TensorRef> named_parameters();
  /// Also the non-persistent ones.
  std::vector<TensorRef> named_buffers();
  std::vector<at::Tensor> parameters();
  StateDict state_dict();  // detached views of the same storage

  /// Converts floating parameters and buffers in place (member handles stay valid).
  void to(at::ScalarType dtype);
  void to(at::Device device);
  /// 4-D parameters and buffers become channels_last.
  void to_channels_last();

  /// Calls `f(name, module)` on this module ("") and all below, parents first.
  void apply(const std::function<void(const std::string&, Module&)>& f);
  const std::vector<std::pair<std::string, std::unique_ptr<Module>>>& children() const {
    return children_;
  }
  Module* child(std::string_view name);

 protected:
  /// Registers a member tensor. Undefined tensors (bias=False) are not listed.
  void add_parameter(std::string name, at::Tensor& member, at::Tensor value);
  void add_buffer(std::string name, at::Tensor& member, at::Tensor value, bool persistent = true);
  /// Forgets a parameter or child (fusion).
  void remove(std::string_view name);

  template <class M, class... Args>
  M& add(std::string name, Args&&... args) {
    return adopt(std::move(name), std::make_unique<M>(std::forward<Args>(args)...));
  }
  template <class M>
  M& adopt(std::string name, std::unique_ptr<M> module) {
    M& reference = *module;
    children_.emplace_back(std::move(name), std::move(module));
    return reference;
  }

 private:
  struct Entry {
    std::string name;
    at::Tensor* tensor;
    bool is_parameter;
    bool persistent;
  };
  void collect(const std::string& prefix, bool non_persistent, std::vector<TensorRef>& out);

  std::vector<Entry> entries_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
  bool training_ = true;
};

/// torch.nn.Sequential with Python's numeric names; an empty one is the identity.
class Sequential : public Module {
 public:
  Sequential() = default;
  at::Tensor forward(const at::Tensor& input) override;
  /// Appends under the next number, or under a name.
  template <class M, class... Args>
  M& push(Args&&... args) {
    return add<M>(std::to_string(children().size()), std::forward<Args>(args)...);
  }
  template <class M, class... Args>
  M& push_named(std::string name, Args&&... args) {
    return add<M>(std::move(name), std::forward<Args>(args)...);
  }
  template <class M>
  M& push_module(std::unique_ptr<M> module) {
    return adopt(std::to_string(children().size()), std::move(module));
  }
  std::size_t size() const { return children().size(); }
  Module& operator[](std::size_t i) { return *children().at(i).second; }
};

/// Deep copy of all state of `from` into `to`, matched by name; an error names what does not fit.
void copy_state(Module& from, Module& to);

}  // namespace sgtrain::tensor
