/* tty_child.h - a program at a terminal of the test's own: keys are typed, what it shows is read.
 * Everything that waits has a deadline and fails the test when it passes. */
#ifndef IDEM_TESTS_TTY_CHILD_H
#define IDEM_TESTS_TTY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "child.h"

typedef struct tty_child {
  pid_t pid;
  int fd;
  char shown[262144]; /* all of it so far */
  size_t len;
  size_t seen; /* up to where tty_child_until has looked */
  long rss_kb; /* the most it had, once it has ended */
} tty_child;

/* argv ends with NULL; the terminal is 24 lines of 100. */
void tty_child_start(tty_child *self, const char *const *argv);
#define TTY_CHILD(self, ...) tty_child_start(self, (const char *const[]){__VA_ARGS__, NULL})
/* Reads until `wanted` was shown, behind what was seen before. */
void tty_child_until(tty_child *self, const char *wanted);
void tty_child_type(const tty_child *self, const char *keys);
/* Reads to the end: the exit status, or minus the signal's number. */
int tty_child_end(tty_child *self);
bool tty_child_has_shown(const tty_child *self, const char *text);

#endif
