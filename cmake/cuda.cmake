# The CUDA flavour: sets SGTRAIN_WITH_CUDA and, when it is on, the target sgtrain::torch_cuda for
# the one module that may use CUDA and NCCL (lib/CMakeLists.txt). No nvcc and no GPU is needed.
set(SGTRAIN_WITH_CUDA OFF)
set(torch_cuda_library ${torch_root}/lib/libtorch_cuda.so)
if(SGTRAIN_CUDA STREQUAL OFF OR (SGTRAIN_CUDA STREQUAL AUTO AND NOT EXISTS ${torch_cuda_library}))
  return()
endif()

set(cuda_missing "")
if(NOT EXISTS ${torch_cuda_library})
  list(APPEND cuda_missing "libtorch_cuda.so in ${torch_root}/lib")
endif()

# Headers: those unpacked beside LibTorch (nvidia's wheels) and those of the toolkit.
file(GLOB cuda_includes ${SGTRAIN_LIBTORCH}/nvidia/*/include)
foreach(root $ENV{CUDA_HOME} /usr/local/cuda)
  if(EXISTS ${root}/include/cuda_runtime_api.h)
    list(APPEND cuda_includes ${root}/include)
    break()
  endif()
endforeach()
foreach(header cuda_runtime_api.h cublas_v2.h cusparse.h cusolverDn.h nccl.h cudnn_version.h)
  string(MAKE_C_IDENTIFIER "SGTRAIN_${header}" variable)
  find_path(${variable} ${header} PATHS ${cuda_includes} NO_DEFAULT_PATH)
  if(NOT ${variable})
    list(APPEND cuda_missing ${header})
  endif()
endforeach()

# Libraries: where libtorch_cuda's RPATH looks (setup.sh puts or links them there), or the system's.
foreach(library libcublas.so.13 libcublasLt.so.13 libcufft.so.12 libcurand.so.10 libcusolver.so.12
        libcusparse.so.12 libcudart.so.13 libcudnn.so.9 libnccl.so.2 libnvshmem_host.so.3
        libcusparseLt.so.0 libcufile.so.0)
  string(MAKE_C_IDENTIFIER "SGTRAIN_${library}" variable)
  find_library(${variable} NAMES ${library} HINTS ${nvidia_libs} ${torch_root}/lib
               PATHS /usr/local/cuda/lib64 $ENV{CUDA_HOME}/lib64)
  if(NOT ${variable})
    list(APPEND cuda_missing ${library})
  endif()
endforeach()
if(cuda_missing)
  list(JOIN cuda_missing ", " names)
  message(FATAL_ERROR "SGTRAIN_CUDA=${SGTRAIN_CUDA}, but these are missing: ${names}. "
                      "scripts/setup.sh --cuda fetches them; -DSGTRAIN_CUDA=OFF builds without.")
endif()

set(SGTRAIN_WITH_CUDA ON)
file(STRINGS ${SGTRAIN_nccl_h}/nccl.h lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" digits "${lines}")
list(JOIN digits "." SGTRAIN_NCCL_VERSION)
file(STRINGS ${SGTRAIN_cudnn_version_h}/cudnn_version.h lines REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
string(REGEX MATCHALL "[0-9]+" digits "${lines}")
list(JOIN digits "." SGTRAIN_CUDNN_VERSION)
file(STRINGS ${SGTRAIN_cuda_runtime_api_h}/cuda_runtime_api.h lines REGEX "define CUDART_VERSION ")
string(REGEX MATCH "[0-9]+" number "${lines}")
math(EXPR major "${number} / 1000")
math(EXPR minor "${number} % 1000 / 10")
set(SGTRAIN_CUDART_VERSION ${major}.${minor})

add_library(sgtrain_torch_cuda INTERFACE)
add_library(sgtrain::torch_cuda ALIAS sgtrain_torch_cuda)
target_include_directories(sgtrain_torch_cuda SYSTEM INTERFACE ${cuda_includes})
target_compile_definitions(sgtrain_torch_cuda INTERFACE USE_C10D_NCCL)
# Opening libtorch_cuda is what installs LibTorch's CUDA hooks, so it must stay a dependency. What the
# module uses of cudart and NCCL it finds through libtorch_cuda, whose RPATH knows where they are.
target_link_options(sgtrain_torch_cuda INTERFACE -Wl,--no-as-needed)
target_link_libraries(sgtrain_torch_cuda INTERFACE sgtrain::torch ${torch_cuda_library}
                      ${torch_root}/lib/libc10_cuda.so)
