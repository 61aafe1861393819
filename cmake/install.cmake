# install.cmake - what `make install` puts down: headers, shared libraries, programs, and the files
# by which pkg-config and find_package(idem) find them. Only the shared libraries are installed:
# the static ones may hold link-time-optimisation objects that fit one compiler alone.
include(CMakePackageConfigHelpers)

set(idem_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/idem)
install(DIRECTORY include/idem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

# idem_install_library(TARGET NAME): the library as idem::NAME, and NAME.pc.
function(idem_install_library target name)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT ${name}-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ${name}-targets NAMESPACE idem:: DESTINATION ${idem_package_dir})
  # Configured when installing, because `cmake --install --prefix` may still change the prefix.
  install(CODE "
    set(PROJECT_VERSION ${PROJECT_VERSION})
    set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
    set(CMAKE_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
    set(CMAKE_INSTALL_LIBDIR ${CMAKE_INSTALL_LIBDIR})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in
                   ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

idem_install_library(idem-shared idem)
if(TARGET idem-uv-shared)
  idem_install_library(idem-uv-shared idem-uv)
endif()

configure_package_config_file(cmake/idem-config.cmake.in ${PROJECT_BINARY_DIR}/idem-config.cmake
                              INSTALL_DESTINATION ${idem_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/idem-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/idem-config.cmake ${PROJECT_BINARY_DIR}/idem-config-version.cmake
        DESTINATION ${idem_package_dir})

# `idem` is for users; the other programs are fixtures for tests and stay in build/bin.
if(TARGET idem-program)
  install(TARGETS idem-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
