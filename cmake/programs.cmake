# programs.cmake - examples/NAME.c is the program NAME, examples/FOLDER/*.c is idem-FOLDER,
# cli/ is idem, with a folder for each subject; cli/validate is idem-validate.

if(NOT CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()

set(IDEM_PROGRAMS)
# Whose speed is measured, or matters to somebody: optimised over all their files at link time.
set(idem_fast idem idem-validate idem-reference idem-conformance-server)
function(idem_program name)
  add_executable(${name}-program ${ARGN})
  set(lto OFF)
  if(name IN_LIST idem_fast)
    set(lto ${idem_lto})
    # They are linked by who can read them: machine code in them as well, as libraries have it, would be thrown away.
    if(idem_lto AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${name}-program PRIVATE -fno-fat-lto-objects)
    endif()
  elseif(idem_lto AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_link_options(${name}-program PRIVATE -fno-lto)
  endif()
  set_target_properties(${name}-program PROPERTIES OUTPUT_NAME ${name}
                        INTERPROCEDURAL_OPTIMIZATION ${lto})
  target_compile_definitions(${name}-program PRIVATE _GNU_SOURCE)
  target_link_libraries(${name}-program PRIVATE ${idem_all})
  list(APPEND IDEM_PROGRAMS ${name})
  set(IDEM_PROGRAMS ${IDEM_PROGRAMS} PARENT_SCOPE)
endfunction()

idem_glob(found ${PROJECT_SOURCE_DIR}/examples/*.c)
# Made of the amalgamation, not of the libraries: tests/amalgamation builds it.
list(FILTER found EXCLUDE REGEX "/one_file.c$")
if(NOT IDEM_EXAMPLES)
  set(found)
endif()
foreach(source ${found})
  get_filename_component(name ${source} NAME_WE)
  idem_program(${name} ${source})
endforeach()

idem_glob(folders ${PROJECT_SOURCE_DIR}/examples/*)
foreach(folder ${folders} ${PROJECT_SOURCE_DIR}/cli/validate)
  get_filename_component(name ${folder} NAME)
  idem_glob(sources ${folder}/*.c)
  if(NOT IDEM_EXAMPLES AND NOT name MATCHES "^(memory|validate)$")
    continue()
  endif()
  if(IS_DIRECTORY ${folder} AND sources)
    idem_program(idem-${name} ${sources})
  endif()
endforeach()

# What some programs need beyond the libraries. It is shared unless nothing may be.
function(idem_link_sqlite3 target)
  set(library deps::sqlite3)
  if(IDEM_STATIC)
    idem_archive(library sqlite3 sqlite3)
  endif()
  target_link_libraries(${target} PRIVATE ${library} m)
endfunction()
if(TARGET idem-memory-program)
  idem_need_sqlite3()
  idem_link_sqlite3(idem-memory-program)
endif()

# idem_embed(VARIABLE FILE...): sources that hold the files, each as the NUL-terminated text
# embedded_NAME.
function(idem_embed variable)
  set(made)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    file(WRITE ${PROJECT_BINARY_DIR}/embedded/${name}.c.new
         "extern const char embedded_${name}[];\nconst char embedded_${name}[] = {${bytes}0};\n")
    configure_file(${PROJECT_BINARY_DIR}/embedded/${name}.c.new
                   ${PROJECT_BINARY_DIR}/embedded/${name}.c COPYONLY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    list(APPEND made ${PROJECT_BINARY_DIR}/embedded/${name}.c)
  endforeach()
  set(${variable} ${made} PARENT_SCOPE)
endfunction()

idem_glob(sources ${PROJECT_SOURCE_DIR}/cli/*.c ${PROJECT_SOURCE_DIR}/cli/*/*.c)
list(FILTER sources EXCLUDE REGEX "/cli/validate/")
if(sources)
  idem_need_sqlite3()
  idem_embed(embedded ${PROJECT_SOURCE_DIR}/cli/config/idem.schema.json
             ${PROJECT_SOURCE_DIR}/cli/verbs/starter.json)
  include(${PROJECT_SOURCE_DIR}/cmake/page.cmake)
  idem_glob(web ${PROJECT_SOURCE_DIR}/web/*.css ${PROJECT_SOURCE_DIR}/web/*.svg)
  idem_page(page ${web})
  idem_program(idem ${sources} ${embedded} ${page})
  target_include_directories(idem-program PRIVATE ${PROJECT_SOURCE_DIR}/cli)
  idem_link_sqlite3(idem-program)
endif()
