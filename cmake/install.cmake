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

# `idem`, `idem-validate` and `idem-memory` are for users; the other programs are fixtures for tests and stay in build/bin. With it come
# its man pages, its completion for each shell where the shell looks for it, and a systemd unit.
if(TARGET idem-program)
  install(TARGETS idem-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  foreach(program validate memory)
    if(TARGET idem-${program}-program)
      install(TARGETS idem-${program}-program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endforeach()
  foreach(section 1 5)
    idem_glob(pages ${PROJECT_SOURCE_DIR}/share/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  install(FILES share/completions/idem.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME idem)
  install(FILES share/completions/_idem DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES share/completions/idem.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(CODE "
    set(bindir \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR})
    configure_file(${PROJECT_SOURCE_DIR}/share/systemd/idem.service.in
                   ${PROJECT_BINARY_DIR}/idem.service @ONLY)")
  install(FILES ${PROJECT_BINARY_DIR}/idem.service DESTINATION lib/systemd/system)
  install(FILES share/grafana/idem.json DESTINATION ${CMAKE_INSTALL_DATADIR}/idem/grafana)
  install(FILES cli/config/idem.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/idem)
endif()
