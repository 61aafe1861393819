/* close.c - shows the thread sanitizer what libuv closes. libuv does so by syscall(SYS_close), since close() is where threads are
 * cancelled; the sanitizer watches close() alone. Where the kernel then gives the number to another thread, it would take the two
 * for one descriptor that both threads made. Loaded before the C library (LD_PRELOAD) into programs of its build. */
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 6 };
typedef long (*syscall_fn)(long number, ...);

static syscall_fn find_real(void) {
  static _Atomic(syscall_fn) real;
  syscall_fn call = real;
  if (call) return call;
  void *found = dlsym(RTLD_NEXT, "syscall");
  memcpy(&call, &found, sizeof call);
  real = call;
  return call;
}

long syscall(long number, ...) {
  long given[MOST];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < MOST; i++) given[i] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_close) return close((int)given[0]);
  return find_real()(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
