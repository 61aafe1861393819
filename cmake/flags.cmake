# flags.cmake - the language, the warnings, the sanitizers and the hardening, for every target.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# -O2 rather than CMake's -O3, and assertions stay on in every build but Release. Functions begin
# where a fetch does: without that, what a message costs changes by a tenth with every edit.
set(CMAKE_C_FLAGS_RELEASE "-O2 -falign-functions=32 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-Og ${IDEM_DEBUG_INFO}")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT IDEM_COVERAGE AND NOT CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_compile_options(
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wformat=2 -fno-common)
if(IDEM_WERROR)
  add_compile_options(-Werror)
endif()
if(IDEM_SANITIZE)
  add_compile_options(-fsanitize=${IDEM_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${IDEM_SANITIZE})
  if(IDEM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  # Hundreds of programs with sanitizers in them: LLVM's linker takes half the time of GNU's. It reads none of what GCC leaves for
  # optimising at link time.
  include(CheckLinkerFlag)
  check_linker_flag(C -fuse-ld=lld idem_lld)
  if(idem_lld AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT IDEM_LTO)
    add_link_options(-fuse-ld=lld)
  endif()
endif()
if(IDEM_FUZZ)
  # Not the depth of the stack, which where it begins has a share in: no run would be like another.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=stack-depth)
  add_compile_definitions(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(IDEM_COVERAGE)
  add_compile_options(--coverage -O0)
  add_link_options(--coverage)
endif()
if(IDEM_HARDEN)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    add_link_options(-Wl,-z,relro,-z,now -Wl,--as-needed)
  endif()
endif()

# Everything an executable of ours is made of is position independent, as distributions expect.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(IDEM_STATIC)
  set(CMAKE_C_LINK_OPTIONS_PIE -static-pie) # in place of -pie, which would undo it
  add_compile_definitions(IDEM_STATIC)
endif()

set(idem_lto OFF)
if(IDEM_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT idem_lto LANGUAGES C)
  # The libraries hold machine code as well, so that programs which gain nothing link in a moment.
  if(idem_lto AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(CMAKE_C_COMPILE_OPTIONS_IPO -flto=auto -ffat-lto-objects)
  endif()
  # In parts, functions that call each other for every message end up far apart; the whole is small.
  if(idem_lto AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_link_options(-flto-partition=one)
  endif()
endif()
