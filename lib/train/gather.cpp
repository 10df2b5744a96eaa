#include "train/gather.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace sgtrain::train {
namespace {

/// Tensors as bytes for all_gather: dtype, rank, sizes, data.
std::string pack(const std::vector<at::Tensor>& tensors) {
  std::string bytes;
  const auto put = [&](std::int64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor host = tensor.detach().cpu().contiguous();
    put(static_cast<std::int64_t>(host.scalar_type()));
    put(host.dim());
    for (const std::int64_t size : host.sizes()) put(size);
    bytes.append(static_cast<const char*>(host.data_ptr()), host.nbytes());
  }
  return bytes;
}

std::vector<at::Tensor> unpack(const std::string& bytes) {
  std::vector<at::Tensor> tensors;
  std::size_t at_byte = 0;
  const auto take = [&] {
    std::int64_t number = 0;
    std::memcpy(&number, bytes.data() + at_byte, sizeof(number));
    at_byte += sizeof(number);
    return number;
  };
  while (at_byte < bytes.size()) {
    const auto dtype = static_cast<at::ScalarType>(take());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(take()));
    for (std::int64_t& size : sizes) size = take();
    at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(dtype));
    std::memcpy(tensor.data_ptr(), bytes.data() + at_byte, tensor.nbytes());
    at_byte += tensor.nbytes();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

std::vector<std::vector<at::Tensor>> gather(const std::vector<at::Tensor>& tensors,
                                            dist::Communicator& comm) {
  if (comm.world_size() == 1) return {tensors};
  std::vector<std::vector<at::Tensor>> out;
  for (const std::string& bytes : comm.all_gather(pack(tensors))) out.push_back(unpack(bytes));
  return out;
}

}  // namespace sgtrain::train
