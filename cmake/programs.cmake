# programs.cmake - examples/NAME.c is the program NAME, examples/FOLDER/*.c is idem-FOLDER,
# cli/*.c is idem and cli/FOLDER/*.c is idem-FOLDER.

if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()

set(IDEM_PROGRAMS)
function(idem_program name)
  add_executable(${name}-program ${ARGN})
  set_target_properties(${name}-program PROPERTIES OUTPUT_NAME ${name}
                        INTERPROCEDURAL_OPTIMIZATION ${idem_lto})
  target_compile_definitions(${name}-program PRIVATE _GNU_SOURCE)
  target_include_directories(${name}-program PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name}-program PRIVATE ${idem_all})
  list(APPEND IDEM_PROGRAMS ${name})
  set(IDEM_PROGRAMS ${IDEM_PROGRAMS} PARENT_SCOPE)
endfunction()

idem_glob(found ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(source ${found})
  get_filename_component(name ${source} NAME_WE)
  idem_program(${name} ${source})
endforeach()

foreach(parent examples cli)
  idem_glob(folders ${PROJECT_SOURCE_DIR}/${parent}/*)
  foreach(folder ${folders})
    get_filename_component(name ${folder} NAME)
    idem_glob(sources ${folder}/*.c)
    if(IS_DIRECTORY ${folder} AND sources)
      idem_program(idem-${name} ${sources})
    endif()
  endforeach()
endforeach()

# What one program needs beyond the libraries.
if(TARGET idem-memory-program)
  idem_need_sqlite3()
  target_link_libraries(idem-memory-program PRIVATE deps::sqlite3)
endif()

idem_glob(sources ${PROJECT_SOURCE_DIR}/cli/*.c)
if(sources)
  idem_program(idem ${sources})
endif()
