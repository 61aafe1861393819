# bench.cmake - bench/NAME.c is the program NAME, linked like a program of ours; a CMakeLists.txt in
# bench/ takes over where that is not enough.

if(EXISTS ${PROJECT_SOURCE_DIR}/bench/CMakeLists.txt)
  add_subdirectory(bench)
else()
  idem_glob(sources ${PROJECT_SOURCE_DIR}/bench/*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    list(APPEND idem_fast ${name})
    idem_program(${name} ${source})
  endforeach()
endif()
