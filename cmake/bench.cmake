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
  # What it compares with is OpenSSL's own.
  idem_need(openssl openssl 3.0)
  target_link_libraries(tokens-program PRIVATE deps::openssl)
endif()
