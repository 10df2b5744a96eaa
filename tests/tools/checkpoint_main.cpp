// checkpoint_tool copy IN OUT: reads a .pth file and writes what was read. For tests with Python.
#include <cstdio>
#include <string_view>

#include "core/error.h"
#include "tensor/checkpoint_file.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != "copy") {
    std::fputs("usage: checkpoint_tool copy IN OUT\n", stderr);
    return 2;
  }
  try {
    sgtrain::tensor::write_pth(argv[3], sgtrain::tensor::read_pth(argv[2]));
  } catch (const sgtrain::core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
