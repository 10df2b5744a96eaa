// The safetensors format (https://github.com/huggingface/safetensors, "Format"): eight bytes of
// header length, a JSON header, the tensors' bytes.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::tensor {

struct SafetensorsFile {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;              // "__metadata__"

  /// nullptr when there is no such tensor.
  const at::Tensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// An error names the nearest right names.
  const at::Tensor& operator[](std::string_view name) const;
};

/// True when the file begins like a safetensors file.
bool is_safetensors(const std::filesystem::path& path);

/// The tensors lie on a private mapping of the file: nothing is read before it is used, and writing
/// to one does not change the file. Throws core::InputError on anything that does not fit the
/// format (lengths, shapes and offsets are checked before anything is made of them).
SafetensorsFile read_safetensors(const std::filesystem::path& path);

/// Writes atomically. Tensors of any device and layout; memory for one tensor at most.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace sgtrain::tensor
