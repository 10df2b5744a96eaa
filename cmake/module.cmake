# One CMake target per folder of lib/, as OBJECT libraries: a static archive would drop the files
# that only register a component. OBJECT libraries do not hand on their objects, so executables
# collect the closure of the folders they name.
#
#   sgtrain_module(NAME [TORCH] [DEPENDS folder…] [LINK target…] [EXCLUDE file…])   *.cpp of the folder
#   sgtrain_link_modules(EXECUTABLE folder…)
#   sgtrain_use_pch(TARGET)

function(sgtrain_module name)
  cmake_parse_arguments(arg "TORCH" "" "DEPENDS;LINK;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(excluded ${arg_EXCLUDE})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()
  if(NOT sources)
    add_library(${name} INTERFACE)  # headers only
    target_link_libraries(${name} INTERFACE sgtrain_flags ${arg_LINK})
    set_property(GLOBAL PROPERTY sgtrain_${name}_has_objects FALSE)
  else()
    add_library(${name} OBJECT ${sources})
    set_property(GLOBAL PROPERTY sgtrain_${name}_has_objects TRUE)
    target_link_libraries(${name} PUBLIC sgtrain_flags sgtrain::fmt ${arg_LINK})
    if(arg_TORCH)
      target_link_libraries(${name} PUBLIC sgtrain::torch)
      sgtrain_use_pch(${name})
    endif()
  endif()
  set(closure ${name})
  foreach(dependency ${arg_DEPENDS})
    get_property(below GLOBAL PROPERTY sgtrain_${dependency}_closure)
    list(APPEND closure ${below})
    # Usage requirements (include paths, libraries) travel; objects do not.
    if(sources)
      target_link_libraries(${name} PUBLIC ${dependency})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY sgtrain_${name}_closure ${closure})
endfunction()

# LibTorch's headers cost 18 s a file; precompiled once they cost 8 s.
function(sgtrain_use_pch target)
  if(NOT SGTRAIN_PCH)
    return()
  endif()
  if(NOT TARGET sgtrain_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/pch.cpp "")
    add_library(sgtrain_pch OBJECT ${CMAKE_BINARY_DIR}/pch.cpp)
    target_link_libraries(sgtrain_pch PUBLIC sgtrain_flags sgtrain::torch)
    target_precompile_headers(sgtrain_pch PRIVATE <ATen/ATen.h> <torch/csrc/autograd/custom_function.h>
                              <map> <memory> <string> <vector> <functional> <optional>)
  endif()
  target_precompile_headers(${target} REUSE_FROM sgtrain_pch)
endfunction()

# Links an executable (or test) with the objects of the folders it names and all below them.
function(sgtrain_link_modules target)
  set(closure "")
  foreach(module ${ARGN})
    get_property(below GLOBAL PROPERTY sgtrain_${module}_closure)
    list(APPEND closure ${below})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  target_link_libraries(${target} PRIVATE sgtrain_flags ${closure})
  # Plug-ins and runtime modules link nothing: what they use they find in the executable.
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  # Modules are opened at run time, so nothing else would build them.
  foreach(folder ${closure})
    get_property(modules GLOBAL PROPERTY sgtrain_${folder}_runtime_modules)
    if(modules)
      add_dependencies(${target} ${modules})
    endif()
  endforeach()
endfunction()
