# sources.cmake - which folder belongs to which library. A folder that is not there yet is empty.

set(IDEM_CORE_FOLDERS
    base json frame rpc schema store auth mcp mcp_server mcp_client http mcp_http)

# idem_glob(VARIABLE PATTERN...): the files that match, looked for again at each build.
function(idem_glob variable)
  file(GLOB found CONFIGURE_DEPENDS ${ARGN})
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

set(IDEM_CORE_SOURCES)
foreach(folder ${IDEM_CORE_FOLDERS})
  idem_glob(found ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
  list(APPEND IDEM_CORE_SOURCES ${found})
  set(IDEM_HAS_${folder} ${found})
endforeach()
idem_glob(IDEM_UV_SOURCES ${PROJECT_SOURCE_DIR}/src/uv/*.c)

# A library needs one source at least; this stands in while a tree has none.
if(NOT IDEM_CORE_SOURCES)
  file(WRITE ${PROJECT_BINARY_DIR}/nothing_yet.c "typedef int idem_nothing_yet;\n")
  set(IDEM_CORE_SOURCES ${PROJECT_BINARY_DIR}/nothing_yet.c)
endif()
