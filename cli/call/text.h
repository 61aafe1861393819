/* text.h - a text that grows, and what a stranger's text becomes before a terminal shows it.
 * Running out of memory ends the program: a command line has nothing to fall back on. */
#ifndef IDEM_CLI_CALL_TEXT_H
#define IDEM_CLI_CALL_TEXT_H

#include <idem/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zero is an empty one. `data` ends with a NUL that `len` does not count; NULL while nothing was put. */
typedef struct text {
  char *data;
  size_t len;
  size_t room;
} text;

void text_put(text *self, const char *data, size_t len);
void text_puts(text *self, const char *words);
void text_printf(text *self, const char *format, ...) IDEM_PRINTF(2, 3);
void text_free(text *self);

/* No byte of it moves the cursor, changes a colour or turns the direction of reading: control characters,
 * bidirectional marks, tags nobody sees and what is no UTF-8 are shown as \x1b or \u{202e}. */
typedef enum text_form {
  TEXT_LINE, /* line ends and tabs are escaped, too */
  TEXT_LINES /* they stay */
} text_form;
void text_escape(text *self, const char *data, size_t len, text_form form);
/* At most `max` bytes of it, what is hidden hidden, then "...". */
void text_escape_cut(text *self, const char *data, size_t len, size_t max);

/* How many columns of a terminal it takes, escaped as it is. */
size_t text_width(const char *data, size_t len);
/* As text_escape_cut, by columns: "..." is counted, too. */
void text_escape_fit(text *self, const char *data, size_t len, size_t columns);
/* One blank at least, then up to that column of what begins at byte `from`. */
void text_pad(text *self, size_t from, size_t column);

/* What a log keeps secret is hidden from now on in all that is said to people: lines, and whatever goes to stderr. NULL: nothing is. */
void text_hide_by(const idem_log *log);
void text_put_hidden(text *self, const char *data, size_t len);

/* To a stream, escaped if that is a terminal, else byte for byte. */
void text_show(FILE *out, const char *data, size_t len);
/* One line of at most `max` bytes, escaped wherever it goes. */
void text_show_line(FILE *out, const char *data, size_t len, size_t max);

/* Bytes of base64; false: it is none. */
bool text_base64(text *self, const char *data, size_t len);

#endif
