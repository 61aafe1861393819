/* terminal.h - a line from a person: keys one at a time, echoed by us or not at all.
 * Blocking, for a thread of its own; another thread ends the wait by writing to `stop`. */
#ifndef IDEM_CLI_CALL_TERMINAL_H
#define IDEM_CLI_CALL_TERMINAL_H

#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

typedef struct terminal {
  int in;
  int out;
  int stop; /* something to read there: give up */
  bool own; /* `in` is ours to close */
  struct termios before;
} terminal;

/* The terminal this process was started from, whatever stdin is. False: there is none. */
bool terminal_open(terminal *self, int stop);
/* As it was found. */
void terminal_close(terminal *self);

typedef enum line_end {
  LINE_TAKEN,    /* Enter */
  LINE_DECLINED, /* Ctrl-D on an empty line */
  LINE_LEFT,     /* Ctrl-C */
  LINE_GONE      /* stopped, or the terminal is */
} line_end;

typedef struct line_kind {
  bool secret;          /* no echo */
  const char **choices; /* arrow keys go through these, already safe to show; NULL: none */
  size_t choice_count;
  size_t chosen; /* where the arrows begin; choice_count: nowhere */
} line_kind;

void terminal_print(const terminal *self, const char *words);
void terminal_printf(const terminal *self, const char *format, ...) IDEM_PRINTF(2, 3);
/* Escaped. */
void terminal_show(const terminal *self, const char *data, size_t len);
/* One line, edited: backspace, Ctrl-U, arrows where there are choices (the line is then the number). */
line_end terminal_line(const terminal *self, const char *prompt, const line_kind *kind, text *line);

#endif
