/* say.c - one line of the verb `call` to people: what is wrong, or good to know. */
#include "call.h"

#include <stdarg.h>
#include <stdio.h>

void call_say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("idem call: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
}
