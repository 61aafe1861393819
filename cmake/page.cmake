# page.cmake - the page of `idem serve`: the files of web/ as a C table, each compressed and as it is. gzip -n leaves names and
# times out, so that the same files make the same bytes. The modules become one script, so that a browser asks once: their lines of
# import and the word export are left out (a test looks that this is enough).

find_program(IDEM_GZIP gzip)
find_program(IDEM_SED sed)
if(NOT IDEM_GZIP OR NOT IDEM_SED)
  message(FATAL_ERROR "gzip or sed is missing: run scripts/setup")
endif()

# What each needs stands before it.
set(IDEM_PAGE_MODULES dom schema mcp list feed result form ask copy tools content tasks wires traffic logs metrics config app)
set(IDEM_VIEWER_MODULES dom schema list feed result traffic viewer)

# idem_page_script(FILE MODULE...): web/MODULE.js, one after the other, as one classic script.
function(idem_page_script file)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/web/ OUTPUT_VARIABLE modules)
  list(TRANSFORM modules APPEND .js)
  execute_process(COMMAND ${IDEM_SED} -e "/^import /d" -e "s/^export //" ${modules} OUTPUT_VARIABLE script RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "sed cannot read ${modules}")
  endif()
  file(WRITE ${file} "(() => {\n'use strict';\n${script}})();\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${modules})
endfunction()

function(idem_page_bytes variable file)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  set(${variable} "${bytes}" PARENT_SCOPE)
endfunction()

function(idem_page_type variable name)
  if(name MATCHES "\\.html$")
    set(${variable} "text/html; charset=utf-8" PARENT_SCOPE)
  elseif(name MATCHES "\\.css$")
    set(${variable} "text/css; charset=utf-8" PARENT_SCOPE)
  elseif(name MATCHES "\\.svg$")
    set(${variable} "image/svg+xml" PARENT_SCOPE)
  else()
    set(${variable} "text/javascript; charset=utf-8" PARENT_SCOPE)
  endif()
endfunction()

# idem_page(VARIABLE FILE...): the source of page_files (cli/page/page_files.h): these files, and both scripts.
function(idem_page variable)
  set(made ${PROJECT_BINARY_DIR}/embedded/page_files.c)
  set(scripts ${PROJECT_BINARY_DIR}/embedded/page.js ${PROJECT_BINARY_DIR}/embedded/viewer.js)
  idem_page_script(${PROJECT_BINARY_DIR}/embedded/page.js ${IDEM_PAGE_MODULES})
  idem_page_script(${PROJECT_BINARY_DIR}/embedded/viewer.js ${IDEM_VIEWER_MODULES})
  set(arrays "")
  set(rows "")
  foreach(file ${ARGN} ${scripts})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} word)
    set(packed ${PROJECT_BINARY_DIR}/embedded/${name}.gz)
    execute_process(COMMAND ${IDEM_GZIP} -9 -n -c ${file} OUTPUT_FILE ${packed} RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "gzip cannot compress ${file}")
    endif()
    idem_page_bytes(small ${packed})
    idem_page_bytes(plain ${file})
    idem_page_type(type ${name})
    file(SHA256 ${file} digest)
    string(SUBSTRING ${digest} 0 16 digest)
    set(path "/page/${name}")
    if(name STREQUAL "index.html")
      set(path "/")
    endif()
    string(APPEND arrays "static const unsigned char small_${word}[] = {${small}};\n"
           "static const unsigned char plain_${word}[] = {${plain}};\n")
    string(APPEND rows "    {\"${path}\", \"${name}\", {\"${type}\", \"\\\"${digest}\\\"\", \"gzip\", "
           "small_${word}, sizeof small_${word}, plain_${word}, sizeof plain_${word}}},\n")
    list(FIND scripts ${file} is_made)
    if(is_made EQUAL -1)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endif()
  endforeach()
  file(WRITE ${made}.new "/* Made of web/ by cmake/page.cmake. */\n#include \"page/page_files.h\"\n\n${arrays}\n"
       "const page_file page_files[] = {\n${rows}};\n"
       "const size_t page_file_count = sizeof page_files / sizeof *page_files;\n")
  configure_file(${made}.new ${made} COPYONLY)
  set(${variable} ${made} PARENT_SCOPE)
endfunction()
