# libraries.cmake - libidem (no I/O) and libidem-uv (the libuv runtime), each built twice:
# static with hidden symbols for our programs and tests, shared for installation.

idem_need_yyjson()
set(idem_core_deps deps::yyjson Threads::Threads m)
set(idem_static_deps ${idem_core_deps})
if(IDEM_STATIC)
  idem_archive(archive yyjson yyjson)
  set(idem_static_deps ${archive} Threads::Threads m)
endif()
if(IDEM_HAS_schema)
  idem_need_pcre2()
  idem_archive(archive pcre2 pcre2-8)
  list(APPEND idem_core_deps deps::pcre2)
  list(APPEND idem_static_deps ${archive})
endif()
if(IDEM_HAS_http)
  idem_need_llhttp()
  idem_need_wslay()
  idem_archive(archive llhttp llhttp)
  list(APPEND idem_core_deps deps::llhttp deps::wslay)
  list(APPEND idem_static_deps ${archive} deps::wslay)
endif()

# What the core may use of the system: plain C17. The runtime is Linux first and says so.
set(idem_uv_definitions _GNU_SOURCE
    IDEM_MODULE_DIR="${CMAKE_INSTALL_FULL_LIBDIR}/idem")

# What modules and the program that loads them must have in common; in the runtime and in each module.
set(IDEM_STAMP ${PROJECT_BINARY_DIR}/module_stamp.c)
idem_glob(stamped ${PROJECT_SOURCE_DIR}/include/idem/*.h ${PROJECT_SOURCE_DIR}/src/base/*.h
          ${PROJECT_SOURCE_DIR}/src/auth/crypto.h ${PROJECT_SOURCE_DIR}/src/store/store.h
          ${PROJECT_SOURCE_DIR}/src/modules/*/*.h)
add_custom_command(OUTPUT ${IDEM_STAMP}
  COMMAND ${CMAKE_COMMAND} "-DHEADERS=${stamped}" -DVERSION=${PROJECT_VERSION} -DOUT=${IDEM_STAMP}
          -P ${PROJECT_SOURCE_DIR}/cmake/stamp.cmake
  DEPENDS ${stamped} ${PROJECT_SOURCE_DIR}/cmake/stamp.cmake VERBATIM)

add_library(idem STATIC ${IDEM_CORE_SOURCES})
target_include_directories(idem PUBLIC include PRIVATE src)
target_link_libraries(idem PUBLIC ${idem_static_deps})
set_target_properties(idem PROPERTIES C_VISIBILITY_PRESET hidden
                      INTERPROCEDURAL_OPTIMIZATION ${idem_lto})
# What programs and tests link: every library there is.
set(idem_all idem)
# What a program tells the address sanitizer, in each that links any of them.
if(IDEM_SANITIZE MATCHES "address")
  add_library(idem-asan-options OBJECT ${PROJECT_SOURCE_DIR}/tests/asan/options.c)
  set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
  target_sources(idem INTERFACE $<${is_program}:$<TARGET_OBJECTS:idem-asan-options>>)
endif()

if(IDEM_UV_SOURCES)
  idem_need_libuv()
  idem_archive(archive libuv uv_a uv)
  add_library(idem-uv STATIC ${IDEM_UV_SOURCES} ${IDEM_STAMP})
  target_compile_definitions(idem-uv PRIVATE ${idem_uv_definitions})
  target_include_directories(idem-uv PRIVATE src)
  target_link_libraries(idem-uv PUBLIC idem ${archive} ${CMAKE_DL_LIBS})
  set_target_properties(idem-uv PROPERTIES C_VISIBILITY_PRESET hidden
                        INTERPROCEDURAL_OPTIMIZATION ${idem_lto})
  set(idem_all idem-uv idem)
endif()

# libidem-uv uses idem__ functions of libidem, so those are exported too, under a version node that
# says they are nobody else's (cmake/exports.map); everything without our prefix stays inside.
function(idem_shared target output)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output} VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
                        BUILD_RPATH_USE_ORIGIN ON) # else the folder's name leaves its length in what is installed
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(map ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic-functions
                        -Wl,--no-undefined)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  endif()
endfunction()

if(IDEM_SHARED)
  add_library(idem-shared SHARED ${IDEM_CORE_SOURCES})
  target_include_directories(idem-shared
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE src)
  target_link_libraries(idem-shared PUBLIC deps::yyjson PRIVATE ${idem_core_deps})
  idem_shared(idem-shared idem)
  if(IDEM_UV_SOURCES)
    add_library(idem-uv-shared SHARED ${IDEM_UV_SOURCES} ${IDEM_STAMP})
    target_compile_definitions(idem-uv-shared PRIVATE ${idem_uv_definitions})
    target_include_directories(idem-uv-shared PRIVATE src)
    target_link_libraries(idem-uv-shared PUBLIC idem-shared deps::libuv
                          PRIVATE Threads::Threads)
    idem_shared(idem-uv-shared idem-uv)
  endif()
endif()
