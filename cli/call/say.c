/* say.c - one line of the verb `call` to people: what is wrong, or good to know.
 * Escaped here, once for all who say something: names in it are often a server's, or those of a file that came with a project. */
#include "call.h"
#include "text.h"

#include "config/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void call_say(const char *format, ...) {
  va_list args;
  char *words = NULL;
  text line = {.data = NULL}, clean = {.data = NULL};
  va_start(args, format);
  int len = vasprintf(&words, format, args);
  va_end(args);
  if (len < 0) memory_exhausted();
  text_puts(&line, "idem call: ");
  text_put_hidden(&clean, words, (size_t)len);
  text_escape(&line, clean.data, clean.len, TEXT_LINE);
  text_puts(&line, "\n");
  fwrite(line.data, 1, line.len, stderr);
  text_free(&line);
  text_free(&clean);
  free(words);
}

int call_flush(void) {
  static int fault;
  if (!fault && (fflush(stdout) != 0 || ferror(stdout))) fault = errno ? errno : EIO;
  return fault;
}
