# Third parties as imported targets. LibTorch's own Caffe2Config demands CUDA, so the targets are
# written by hand.
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenCV REQUIRED COMPONENTS core imgproc)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CURL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)

# ---- LibTorch (the wheel of PyPI, unpacked)
set(torch_root ${SGTRAIN_LIBTORCH}/torch)
if(NOT EXISTS ${torch_root}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch is not in ${SGTRAIN_LIBTORCH}: run scripts/setup.sh, or set SGTRAIN_LIBTORCH")
endif()
file(GLOB nvidia_libs ${SGTRAIN_LIBTORCH}/nvidia/*/lib)
find_library(GLOO_HEADERS_LIB gloo)  # only its headers are used
find_path(GLOO_INCLUDE gloo/algorithm.h REQUIRED)

add_library(sgtrain_torch INTERFACE)
add_library(sgtrain::torch ALIAS sgtrain_torch)
target_include_directories(sgtrain_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_compile_definitions(sgtrain_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO FMT_HEADER_ONLY=1)
target_link_libraries(sgtrain_torch INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so Threads::Threads)
# libtorch finds its own dependencies through its RPATH at run time; the linker needs to be told.
foreach(dir ${nvidia_libs})
  target_link_options(sgtrain_torch INTERFACE -Wl,-rpath-link,${dir})
endforeach()
target_link_options(sgtrain_torch INTERFACE -Wl,-rpath-link,${torch_root}/lib)

# ---- fmt: LibTorch's copy, for torch-free targets through a folder that shows nothing else
set(fmt_view ${CMAKE_BINARY_DIR}/fmt_view)
file(MAKE_DIRECTORY ${fmt_view})
file(CREATE_LINK ${torch_root}/include/fmt ${fmt_view}/fmt SYMBOLIC)
add_library(sgtrain_fmt INTERFACE)
add_library(sgtrain::fmt ALIAS sgtrain_fmt)
target_include_directories(sgtrain_fmt SYSTEM INTERFACE ${fmt_view})
target_compile_definitions(sgtrain_fmt INTERFACE FMT_HEADER_ONLY=1)

# ---- OpenCV core and imgproc as system headers (they warn under C++20)
add_library(sgtrain_opencv INTERFACE)
add_library(sgtrain::opencv ALIAS sgtrain_opencv)
target_include_directories(sgtrain_opencv SYSTEM INTERFACE ${OpenCV_INCLUDE_DIRS})
target_link_libraries(sgtrain_opencv INTERFACE opencv_core opencv_imgproc)
