# At installation: the copyright files of the Debian packages that the bundled libraries come from.
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
file(GLOB libraries ${prefix}/lib/sgtrain/bundled/*)
foreach(library ${libraries})
  cmake_path(GET library FILENAME name)
  execute_process(COMMAND dpkg-query --search "*/${name}" OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:]+):")
    set(package ${CMAKE_MATCH_1})
    if(EXISTS /usr/share/doc/${package}/copyright)
      configure_file(/usr/share/doc/${package}/copyright
                     ${prefix}/share/doc/sgtrain/bundled/${package}.copyright COPYONLY)
    endif()
  endif()
endforeach()
