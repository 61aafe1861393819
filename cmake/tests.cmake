# tests.cmake - tests/unit/FOLDER/test_X.c is the cmocka program unit.FOLDER.X, label fast; a file
# with "threads" in its name is also run under the thread sanitizer. The other kinds of test have a
# CMakeLists.txt in tests/KIND.

idem_need_cmocka()

idem_glob(sources ${PROJECT_SOURCE_DIR}/tests/support/*.c)
set(idem_test_libraries ${idem_all} deps::cmocka)
if(sources)
  add_library(idem-test-support STATIC ${sources})
  target_compile_definitions(idem-test-support PRIVATE _GNU_SOURCE)
  target_include_directories(idem-test-support
    PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(idem-test-support PUBLIC ${idem_all} deps::cmocka)
  list(PREPEND idem_test_libraries idem-test-support)
endif()

# What sources of tests see: private headers, tests/support, and where things are.
function(idem_test_sees target)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE
                             IDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             IDEM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/tests)
endfunction()

# idem_test_program(TARGET SOURCE...): a program that may see private headers and tests/support.
function(idem_test_program target)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  idem_test_sees(${target})
  target_link_libraries(${target} PRIVATE ${idem_test_libraries})
endfunction()

# idem_test_parts(TARGET SOURCE...): sources that several test programs share, compiled once. A program that
# links them takes those it calls and may put functions of its own in place of others.
function(idem_test_parts target)
  add_library(${target} STATIC ${ARGN})
  idem_test_sees(${target})
  target_link_libraries(${target} PUBLIC ${idem_test_libraries})
endfunction()

# What the tests labelled threads are made of: all that the thread sanitizer's build has to build.
add_custom_target(threads)

# What the tests labelled unit and transcript are made of: they are run with clang's sanitizers, too.
add_custom_target(core-tests)

# idem_test_labels(NAME LABEL...): the labels; "threads" is found by name.
function(idem_test_labels name)
  set(labels ${ARGN})
  if(name MATCHES "threads")
    list(APPEND labels threads)
    add_dependencies(threads ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
  if(IDEM_SANITIZE MATCHES "thread")
    set_tests_properties(${name} PROPERTIES
                         ENVIRONMENT "LD_PRELOAD=${PROJECT_BINARY_DIR}/tsan_close.so")
  endif()
endfunction()

# What the tests of cli's parts link: those that need neither a process nor the rest of the program. Those of
# service and program are called with the test's own in place of room.c, scratch.c and confine.c.
idem_glob(cli_parts ${PROJECT_SOURCE_DIR}/cli/config/template.c ${PROJECT_SOURCE_DIR}/cli/config/expand.c
          ${PROJECT_SOURCE_DIR}/cli/config/memory.c ${PROJECT_SOURCE_DIR}/cli/config/regular_file.c
          ${PROJECT_SOURCE_DIR}/cli/config/secret_command.c)
foreach(part call/arguments call/cache call/expand call/histogram call/inline_image call/print call/say call/secret
        call/servers call/target call/text call/width page/record page/samples service/turns service/slots service/clean service/watch
        program/runner program/spawn program/order program/crowd program/confine_calls program/confine_privileges)
  list(APPEND cli_parts ${PROJECT_SOURCE_DIR}/cli/${part}.c)
endforeach()
idem_test_parts(idem-test-cli ${cli_parts})
target_include_directories(idem-test-cli PUBLIC ${PROJECT_SOURCE_DIR}/cli)

# A module's test has its sources in it: test_sqlite*.c those of src/modules/sqlite.
foreach(module sqlite redis)
  idem_glob(parts ${PROJECT_SOURCE_DIR}/src/modules/${module}/*.c)
  if(parts)
    idem_test_parts(idem-test-${module} ${parts})
  endif()
endforeach()
if(TARGET idem-test-sqlite)
  idem_need_sqlite3()
  target_link_libraries(idem-test-sqlite PUBLIC deps::sqlite3)
endif()
if(TARGET idem-test-redis)
  idem_need_hiredis()
  target_link_libraries(idem-test-redis PUBLIC deps::hiredis)
endif()

idem_glob(sources ${PROJECT_SOURCE_DIR}/tests/unit/*/test_*.c)
foreach(source ${sources})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  get_filename_component(stem ${source} NAME_WE)
  string(REGEX REPLACE "^test_" "" stem ${stem})
  set(name unit.${folder}.${stem})
  idem_test_program(${name} ${source})
  if(folder STREQUAL "cli")
    target_link_libraries(${name} PRIVATE idem-test-cli)
  endif()
  if(folder STREQUAL "modules" AND stem MATCHES "^(sqlite|redis)")
    target_link_libraries(${name} PRIVATE idem-test-${CMAKE_MATCH_1})
    if(CMAKE_MATCH_1 STREQUAL "redis" AND TARGET idem-tls)
      add_dependencies(${name} idem-tls)
    endif()
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(stem MATCHES "^redis_(faults|cluster)$")
    idem_test_labels(${name} unit) # seconds, for servers that come and go
  else()
    idem_test_labels(${name} unit fast)
  endif()
  add_dependencies(core-tests ${name})
endforeach()

# What uses the store is tested once more with one that answers later: the variable is a seed.
foreach(stem edge lifetimes loops sessions sse streams tasks)
  foreach(seed 1 2 3)
    set(name unit.mcp_http.${stem}.later${seed})
    add_test(NAME ${name} COMMAND unit.mcp_http.${stem} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    idem_test_labels(${name} unit fast)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT IDEM_LATER_STORE=${seed})
  endforeach()
endforeach()

idem_glob(kinds ${PROJECT_SOURCE_DIR}/tests/*/CMakeLists.txt)
foreach(kind ${kinds})
  get_filename_component(folder ${kind} DIRECTORY)
  add_subdirectory(${folder})
endforeach()
