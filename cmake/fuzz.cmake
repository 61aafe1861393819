# fuzz.cmake - fuzz/fuzz_X.c is the libFuzzer program fuzz_X; scripts/fuzz runs them.

if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "The fuzz targets need clang and its libFuzzer: run scripts/setup test")
endif()
idem_glob(sources ${PROJECT_SOURCE_DIR}/fuzz/fuzz_*.c)
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/fuzz)
  target_link_libraries(${name} PRIVATE ${idem_all})
endforeach()
