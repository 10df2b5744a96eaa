# Options of the build and what every target of ours shares.
set(SGTRAIN_CUDA AUTO CACHE STRING "CUDA flavour: AUTO (when LibTorch has it), ON, OFF")
set_property(CACHE SGTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SGTRAIN_LIBTORCH "${CMAKE_SOURCE_DIR}/.deps/libtorch" CACHE PATH "Folder with torch/ and nvidia/ (scripts/setup.sh makes it)")
option(SGTRAIN_PCH "Precompile LibTorch's headers" ON)
option(SGTRAIN_VIDEO "Build the OpenCV image and video module" ON)
set(SGTRAIN_SANITIZE "" CACHE STRING "Sanitizer: empty, address (with undefined) or thread")
set_property(CACHE SGTRAIN_SANITIZE PROPERTY STRINGS "" address thread)

if(NOT SGTRAIN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SGTRAIN_CUDA is AUTO, ON or OFF, not '${SGTRAIN_CUDA}'")
endif()
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

# The build tree has the layout of an installation, so that the program finds its modules, recipes
# and libraries in both by the same relative paths: bin/sgtrain, lib/sgtrain/*.so, share/sgtrain/.
set(SGTRAIN_MODULE_DIR ${CMAKE_BINARY_DIR}/lib/sgtrain)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/sgtrain)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/recipes ${CMAKE_BINARY_DIR}/share/sgtrain/recipes SYMBOLIC)

add_library(sgtrain_flags INTERFACE)
target_compile_options(sgtrain_flags INTERFACE -Wall -Wextra -Werror)
target_include_directories(sgtrain_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib)

if(SGTRAIN_SANITIZE)
  set(sanitizers ${SGTRAIN_SANITIZE})
  if(SGTRAIN_SANITIZE STREQUAL address)
    set(sanitizers address,undefined)
  endif()
  # g++ 12 sees uninitialised values in instrumented code that are none.
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${sanitizers})
endif()

find_program(SGTRAIN_CCACHE ccache)
if(SGTRAIN_CCACHE)
  # A precompiled header is cached only with these two settings.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SGTRAIN_CCACHE})
endif()
find_program(SGTRAIN_MOLD mold)
if(SGTRAIN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
