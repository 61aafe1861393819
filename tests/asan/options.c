/* options.c - what every program of the address sanitizer's build tells it. Variables of a thread that a module brings (dlopen) lie in memory
 * that the C library takes from malloc. Where that begins 16 bytes behind a page the sanitizer believes, as it was with glibc 2.19, that
 * their size and place stand before it, and its leak check reads from wherever those bytes point: "Tracer caught signal 11", in one
 * run of about 128. Such memory is found without that guess as well, since the dynamic linker asked for it. tests/asan/leaks.c shows both. */
extern const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return "intercept_tls_get_addr=0";
}
