# Options of the build and what every target of ours shares.
set(SGTRAIN_CUDA AUTO CACHE STRING "CUDA flavour: AUTO (when libtorch_cuda is there), ON, OFF")
set_property(CACHE SGTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SGTRAIN_LIBTORCH "${CMAKE_SOURCE_DIR}/.deps/libtorch" CACHE PATH "Folder with torch/ and nvidia/ (scripts/setup.sh makes it)")
option(SGTRAIN_PCH "Precompile LibTorch's headers" ON)
option(SGTRAIN_VIDEO "Build the OpenCV image and video module" ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # executables too, or they could not share the precompiled header

add_library(sgtrain_flags INTERFACE)
target_compile_options(sgtrain_flags INTERFACE -Wall -Wextra -Werror)
target_include_directories(sgtrain_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib)

find_program(SGTRAIN_CCACHE ccache)
if(SGTRAIN_CCACHE)
  # A precompiled header is cached only with these two settings.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SGTRAIN_CCACHE})
endif()
find_program(SGTRAIN_MOLD mold)
if(SGTRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
