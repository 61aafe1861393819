# modules.cmake - what needs a heavy library, each a shared object of its own that the runtime loads
# when it is first needed: src/modules/NAME/*.c is idem-NAME.so, looked for beside the programs
# (../lib/idem), where it is installed, and in $IDEM_MODULES.

set(IDEM_MODULE_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/idem)

# idem_module(NAME DEPENDENCY...): nothing while the folder is empty.
function(idem_module name)
  if(IDEM_STATIC)
    return() # a program without shared libraries has no loader
  endif()
  idem_glob(sources ${PROJECT_SOURCE_DIR}/src/modules/${name}/*.c)
  if(NOT sources)
    return()
  endif()
  add_library(idem-${name} MODULE ${sources})
  target_include_directories(idem-${name} PRIVATE include src)
  target_compile_definitions(idem-${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(idem-${name} PRIVATE ${ARGN})
  set_target_properties(idem-${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/../lib/idem)
  if(IDEM_SHARED)
    install(TARGETS idem-${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/idem)
  endif()
endfunction()

idem_glob(sources ${PROJECT_SOURCE_DIR}/src/modules/tls/*.c)
if(sources)
  idem_need(openssl openssl 3.0)
  idem_module(tls deps::openssl)
endif()
idem_glob(sources ${PROJECT_SOURCE_DIR}/src/modules/curl/*.c)
if(sources)
  idem_need(curl libcurl 7.87.0)
  idem_module(curl deps::curl)
endif()
idem_glob(sources ${PROJECT_SOURCE_DIR}/src/modules/sqlite/*.c)
if(sources)
  idem_need_sqlite3()
  idem_module(sqlite deps::sqlite3)
endif()
idem_glob(sources ${PROJECT_SOURCE_DIR}/src/modules/jose/*.c)
if(sources)
  idem_need(openssl openssl 3.0)
  idem_need_cjose()
  idem_module(jose deps::cjose deps::openssl)
endif()

# What `make run` needs: the program and what it may load, without libraries, examples and tests.
if(TARGET idem-program)
  add_custom_target(idem-and-modules DEPENDS idem-program)
  foreach(name tls curl sqlite jose)
    if(TARGET idem-${name})
      add_dependencies(idem-and-modules idem-${name})
    endif()
  endforeach()
endif()
