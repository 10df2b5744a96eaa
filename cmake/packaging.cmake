# cmake --install and CPack. The installed tree is relocatable:
#
#   bin/sgtrain                    the program; finds everything below relative to itself
#   lib/sgtrain/*.so               modules (other images and video, CUDA)
#   lib/sgtrain/libtorch/          LibTorch in the layout of its wheel, which its RPATHs expect
#   share/sgtrain/recipes/         share/doc/sgtrain/
#   include/sgtrain/, lib/cmake/   for plug-ins: find_package(sgtrain)
#
# Two archives (scripts/package.sh makes both): the whole tree, which needs Debian 12's run-time
# libraries, and a thin one without LibTorch but with all other libraries, which runs against a
# torch wheel of the same version on other distributions (SGTRAIN_LIBTORCH, packaging/sgtrain.sh.in).
include(GNUInstallDirs)
set(private_dir lib/sgtrain)

# DT_RPATH, not DT_RUNPATH: only the former is searched for the dependencies of dependencies.
target_link_options(sgtrain PRIVATE -Wl,--disable-new-dtags)
set_target_properties(sgtrain PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${private_dir}/bundled:$ORIGIN/../${private_dir}/libtorch/torch/lib")
install(TARGETS sgtrain RUNTIME DESTINATION bin COMPONENT program)

get_property(modules GLOBAL PROPERTY sgtrain_runtime_modules)
foreach(module ${modules})
  target_link_options(${module} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${module} PROPERTIES INSTALL_RPATH "$ORIGIN/bundled:$ORIGIN/libtorch/torch/lib")
  install(TARGETS ${module} LIBRARY DESTINATION ${private_dir} COMPONENT runtime)
endforeach()
install(DIRECTORY recipes DESTINATION share/sgtrain COMPONENT runtime)
install(FILES README.md LICENSE DESTINATION share/doc/sgtrain COMPONENT runtime OPTIONAL)

# ---- LibTorch: the real files behind links into a CUDA toolkit, so that the tree can be moved
file(GLOB torch_licenses ${SGTRAIN_LIBTORCH}/torch-*.dist-info/licenses/*)
install(FILES ${torch_licenses} DESTINATION share/doc/sgtrain/libtorch COMPONENT libtorch)
function(sgtrain_install_library file component)
  file(RELATIVE_PATH relative ${SGTRAIN_LIBTORCH} ${file})
  cmake_path(GET relative PARENT_PATH folder)
  cmake_path(GET relative FILENAME name)
  file(REAL_PATH ${file} real)
  install(PROGRAMS ${real} DESTINATION ${private_dir}/libtorch/${folder} RENAME ${name} COMPONENT ${component})
endfunction()
set(cpu_libraries ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
file(GLOB more_libraries ${torch_root}/lib/libgomp*.so* ${SGTRAIN_LIBTORCH}/nvidia/*/lib/libcupti.so.*
     ${SGTRAIN_LIBTORCH}/nvidia/*/lib/libcudart.so.*)
foreach(library ${cpu_libraries} ${more_libraries})
  sgtrain_install_library(${library} libtorch)
endforeach()
set(cuda_component "")
if(SGTRAIN_WITH_CUDA)
  set(cuda_component libtorch_cuda)
  file(GLOB cuda_libraries ${torch_root}/lib/lib*cuda*.so ${torch_root}/lib/libtorch_nvshmem.so
       ${torch_root}/lib/libcaffe2_nvrtc.so ${SGTRAIN_LIBTORCH}/nvidia/*/lib/*.so.*)
  list(REMOVE_ITEM cuda_libraries ${more_libraries})
  foreach(library ${cuda_libraries})
    sgtrain_install_library(${library} libtorch_cuda)
  endforeach()
endif()

# ---- for plug-ins
install(DIRECTORY lib/ DESTINATION include/sgtrain COMPONENT development FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${torch_root}/include DESTINATION ${private_dir}/libtorch/torch COMPONENT development)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/packaging/sgtrainConfig.cmake.in ${CMAKE_BINARY_DIR}/sgtrainConfig.cmake
                              INSTALL_DESTINATION lib/cmake/sgtrain)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sgtrainConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/sgtrainConfig.cmake ${CMAKE_BINARY_DIR}/sgtrainConfigVersion.cmake
              cmake/packaging/plugin_abi.cpp
        DESTINATION lib/cmake/sgtrain COMPONENT development)

# ---- the thin archive: program and wrapper, and every library but LibTorch's and the C and C++
# run-time libraries, which another distribution has in a newer version
configure_file(cmake/packaging/sgtrain.sh.in ${CMAKE_BINARY_DIR}/packaging/sgtrain @ONLY
               FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(PROGRAMS ${CMAKE_BINARY_DIR}/packaging/sgtrain DESTINATION bin COMPONENT thin EXCLUDE_FROM_ALL)
install(TARGETS sgtrain RUNTIME_DEPENDENCY_SET sgtrain_libraries
        RUNTIME DESTINATION libexec COMPONENT thin EXCLUDE_FROM_ALL)
install(RUNTIME_DEPENDENCY_SET sgtrain_libraries
  PRE_EXCLUDE_REGEXES "^libtorch" "^libc10" "^ld-linux" "^linux-vdso"
    "^lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s|gomp)\\.so"
  LIBRARY DESTINATION ${private_dir}/bundled COMPONENT thin EXCLUDE_FROM_ALL)
install(SCRIPT cmake/packaging/bundled_licenses.cmake COMPONENT thin EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME sgtrain)
set(CPACK_PACKAGE_VENDOR sgtrain)
set(CPACK_PACKAGE_FILE_NAME sgtrain-${PROJECT_VERSION}-linux-x86_64)
if(SGTRAIN_WITH_CUDA)
  string(APPEND CPACK_PACKAGE_FILE_NAME -cuda13)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL program runtime libtorch ${cuda_component} development)
set(CPACK_ARCHIVE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
set(CPACK_THREADS 0)
include(CPack)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/CPackThin.cmake @ONLY CONTENT [=[
include("@CMAKE_BINARY_DIR@/CPackConfig.cmake")
set(CPACK_COMPONENTS_ALL runtime thin)
set(CPACK_PACKAGE_FILE_NAME sgtrain-@PROJECT_VERSION@-linux-x86_64-thin)
set(CPACK_ARCHIVE_FILE_NAME sgtrain-@PROJECT_VERSION@-linux-x86_64-thin)
]=])
