# install.cmake - what `make install` puts down: headers, shared libraries, programs.

install(DIRECTORY include/idem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(TARGETS idem-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET idem-uv-shared)
  install(TARGETS idem-uv-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
