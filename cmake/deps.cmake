# deps.cmake - the libraries idem stands on: found on the system, never vendored.
# A dependency is looked for only when a source folder that needs it is there. Each one found
# becomes the imported target deps::NAME.

find_package(PkgConfig)
if(NOT PKG_CONFIG_FOUND)
  message(FATAL_ERROR "pkg-config is missing: run scripts/setup")
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# idem_need(NAME MODULE MINIMUM): MODULE as pkg-config knows it, at least version MINIMUM.
function(idem_need name module minimum)
  if(TARGET deps::${name})
    return()
  endif()
  pkg_check_modules(${name} QUIET IMPORTED_TARGET GLOBAL "${module}>=${minimum}")
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${module} >= ${minimum} is missing: run scripts/setup")
  endif()
  add_library(deps::${name} ALIAS PkgConfig::${name})
endfunction()

# idem_archive(VARIABLE NAME LIBRARY...): in VARIABLE, what the programs link for deps::NAME; its archive
# may have one of several names. Each shared library costs a program about a tenth of a millisecond at
# its start, whether it is used or not.
function(idem_archive variable name)
  set(${variable} deps::${name} PARENT_SCOPE)
  if(NOT IDEM_ARCHIVES)
    return()
  endif()
  list(TRANSFORM ARGN PREPEND lib OUTPUT_VARIABLE files)
  list(TRANSFORM files APPEND .a)
  find_library(IDEM_ARCHIVE_${name} NAMES ${files} HINTS ${${name}_LIBRARY_DIRS})
  if(IDEM_ARCHIVE_${name})
    set(${variable} ${IDEM_ARCHIVE_${name}} PARENT_SCOPE)
  endif()
endfunction()

# wslay comes without a pkg-config file on Debian, and its header's version number is not kept.
function(idem_need_wslay)
  if(TARGET deps::wslay)
    return()
  endif()
  find_path(WSLAY_INCLUDE_DIR wslay/wslay.h)
  find_library(WSLAY_LIBRARY wslay)
  if(NOT WSLAY_INCLUDE_DIR OR NOT WSLAY_LIBRARY)
    message(FATAL_ERROR "wslay is missing: run scripts/setup")
  endif()
  add_library(deps::wslay UNKNOWN IMPORTED GLOBAL)
  set_target_properties(deps::wslay PROPERTIES IMPORTED_LOCATION ${WSLAY_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${WSLAY_INCLUDE_DIR})
endfunction()

# cjose's pkg-config file wants that of jansson, whose headers nobody here needs and Debian's package does not bring.
function(idem_need_cjose)
  if(TARGET deps::cjose)
    return()
  endif()
  find_path(CJOSE_INCLUDE_DIR cjose/cjose.h)
  find_library(CJOSE_LIBRARY cjose)
  if(NOT CJOSE_INCLUDE_DIR OR NOT CJOSE_LIBRARY)
    message(FATAL_ERROR "cjose is missing: run scripts/setup")
  endif()
  add_library(deps::cjose UNKNOWN IMPORTED GLOBAL)
  set_target_properties(deps::cjose PROPERTIES IMPORTED_LOCATION ${CJOSE_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CJOSE_INCLUDE_DIR})
endfunction()

macro(idem_need_yyjson)
  idem_need(yyjson yyjson 0.10.0)
endmacro()
macro(idem_need_llhttp)
  idem_need(llhttp libllhttp 9.2.0)
endmacro()
macro(idem_need_pcre2)
  idem_need(pcre2 libpcre2-8 10.32)
endmacro()
macro(idem_need_libuv)
  idem_need(libuv libuv 1.44.0)
endmacro()
macro(idem_need_sqlite3)
  idem_need(sqlite3 sqlite3 3.34.0)
endmacro()
macro(idem_need_cmocka)
  idem_need(cmocka cmocka 1.1.5)
endmacro()
