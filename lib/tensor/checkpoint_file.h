// `.pth` files: what torch.save writes (zip archives since torch 1.6, plain pickles before), read
// and written without Python.
#pragma once

#include <filesystem>

#include "tensor/value.h"

namespace sgtrain::tensor {

/// Tensors lie on a private mapping of the file where their alignment allows it; writing to them
/// does not change the file. Throws core::InputError with what is wrong and what to do: absent,
/// incomplete, damaged (checksums are compared), not a checkpoint (TorchScript, a web page, a Git
/// LFS pointer), or asking to run code.
Value read_pth(const std::filesystem::path& path);

/// Writes a zip archive that `torch.load(path, weights_only=True)` opens. Atomic; free space is
/// checked first; memory for one tensor at most. Classes (Value::object) cannot be written.
void write_pth(const std::filesystem::path& path, const Value& value);

}  // namespace sgtrain::tensor
