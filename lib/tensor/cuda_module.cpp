#include "tensor/cuda_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "core/process.h"

namespace sgtrain::tensor {
namespace {

constexpr const char* kFileName = "libsgtrain_cuda.so";

struct Opened {
  CudaModule module;
  bool ok = false;
  std::string problem;
};

// In the build tree and in an installed one.
std::vector<std::filesystem::path> candidates() {
  const auto here = core::executable_path().parent_path();
  return {here / ".." / "lib" / "sgtrain" / kFileName, here / ".." / "lib" / kFileName,
          here / kFileName};
}

Opened open_module() {
  Opened out;
  std::filesystem::path file;
  for (const auto& candidate : candidates()) {
    if (std::filesystem::exists(candidate)) {
      file = candidate.lexically_normal();
      break;
    }
  }
  if (file.empty()) {
    out.problem = "this build has no CUDA support (no " + std::string(kFileName) +
                  " beside the program; scripts/setup.sh --cuda fetches what it needs)";
    return out;
  }
  // Global: LibTorch's CUDA backend registers itself for everybody.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    out.problem =
        "the CUDA module cannot be opened: " + std::string(reason ? reason : file.c_str());
    return out;
  }
  const auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(handle, kCudaModuleEntry));
  if (entry != nullptr) entry(&out.module);
  if (entry == nullptr || out.module.abi != CudaModule::kAbi) {
    out.problem = file.string() + " belongs to another version of sgtrain";
    return out;
  }
  out.ok = true;
  return out;
}

const Opened& opened() {
  static const Opened once = open_module();
  return once;
}

}  // namespace

const CudaModule* cuda_module() {
  return opened().ok ? &opened().module : nullptr;
}
const std::string& cuda_module_problem() {
  return opened().problem;
}

}  // namespace sgtrain::tensor
