// Python pickles as plain data, without Python: a machine that knows the opcodes of protocols 2 to
// 5 (https://docs.python.org/3/library/pickletools.html) which torch.save produces, a short list
// of globals that build tensors and containers, and nothing that runs. An instance of any other
// class becomes Value::object (its name and state); what could only harm is refused by name.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/value.h"

namespace sgtrain::tensor {

/// A storage that a pickle refers to; its bytes lie elsewhere in the file.
struct StorageRef {
  std::string key;
  at::ScalarType type = at::kByte;
  std::int64_t elements = 0;
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(elements) * c10::elementSize(type);
  }
};

class Unpickler {
 public:
  /// @param bytes begins with a pickle; `where` names the file in errors.
  Unpickler(std::span<const std::byte> bytes, std::string where);
  ~Unpickler();
  Unpickler(const Unpickler&) = delete;
  Unpickler& operator=(const Unpickler&) = delete;

  /// Runs to the pickle's end. Throws core::InputError: damaged, opcode or global not known, too
  /// many or too deeply nested objects, an object that contains itself.
  void run();
  std::size_t consumed() const;  // bytes of the pickle
  const std::vector<StorageRef>& storages() const;
  /// The result. `load` gives a storage's memory as a byte tensor of at least `bytes()`.
  Value result(const std::function<at::Tensor(const StorageRef&)>& load) const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

/// A tensor whose bytes go beside the pickle, under "data/KEY".
struct PickledTensor {
  std::string key;
  at::Tensor tensor;  // of any device and layout; stored contiguous
};

struct Pickled {
  std::string bytes;  // protocol 2, which every torch reads with weights_only=True
  std::vector<PickledTensor> tensors;
};

/// Plain values only: an error names an object or a type that has no place in such a file.
Pickled pickle(const Value& value);

}  // namespace sgtrain::tensor
