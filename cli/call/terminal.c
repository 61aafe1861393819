/* terminal.c - see terminal.h. Ctrl-C is a key here, not a signal: the form decides what it means. */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 65536u
enum { KEY_UP = 256, KEY_DOWN, KEY_OTHER, KEY_NONE };

bool terminal_open(terminal *self, int stop) {
  *self = (terminal){.in = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), .stop = stop};
  self->own = self->in >= 0;
  self->out = self->in;
  if (!self->own && isatty(0) && isatty(2)) self->in = 0, self->out = 2;
  if (self->in < 0 || tcgetattr(self->in, &self->before) != 0) {
    if (self->own) close(self->in);
    return false;
  }
  struct termios keys = self->before;
  keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
  keys.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  tcsetattr(self->in, TCSADRAIN, &keys);
  return true;
}

void terminal_close(terminal *self) {
  tcsetattr(self->in, TCSADRAIN, &self->before);
  if (self->own) close(self->in);
}

/* ------------------------------------------------------------------------ showing */

static void put(const terminal *self, const char *data, size_t len) {
  while (len) {
    ssize_t done = write(self->out, data, len);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return; /* the terminal has gone; reading will say so */
    data += done;
    len -= (size_t)done;
  }
}

void terminal_print(const terminal *self, const char *words) { put(self, words, strlen(words)); }

void terminal_printf(const terminal *self, const char *format, ...) {
  va_list args;
  char *made = NULL;
  va_start(args, format);
  int len = vasprintf(&made, format, args);
  va_end(args);
  if (len >= 0) put(self, made, (size_t)len);
  free(made);
}

void terminal_show(const terminal *self, const char *data, size_t len) {
  text shown = {.data = NULL};
  text_escape(&shown, data, len, TEXT_LINES);
  if (shown.len) put(self, shown.data, shown.len);
  text_free(&shown);
}

/* --------------------------------------------------------------------------- keys */

/* A byte; KEY_NONE: the end. `wait_ms` -1: as long as it takes. */
static int next_byte(const terminal *self, int wait_ms) {
  unsigned char byte;
  struct pollfd both[] = {{.fd = self->in, .events = POLLIN}, {.fd = self->stop, .events = POLLIN}};
  int ready;
  do ready = poll(both, self->stop >= 0 ? 2 : 1, wait_ms);
  while (ready < 0 && errno == EINTR);
  if (ready <= 0 || (self->stop >= 0 && both[1].revents)) return KEY_NONE;
  return read(self->in, &byte, 1) == 1 ? byte : KEY_NONE;
}

/* What follows an escape comes with it: who presses the key alone sends nothing more. */
static int rest_of_escape(const terminal *self) {
  int byte = next_byte(self, 50);
  if (byte != '[' && byte != 'O') return KEY_OTHER;
  do byte = next_byte(self, 50);
  while (byte >= '0' && byte <= '?');
  return byte == 'A' ? KEY_UP : byte == 'B' ? KEY_DOWN : KEY_OTHER;
}

static int next_key(const terminal *self) {
  int byte = next_byte(self, -1);
  return byte == 27 ? rest_of_escape(self) : byte;
}

/* ---------------------------------------------------------------------- the editor */

typedef struct editor {
  const terminal *at;
  const char *prompt;
  const line_kind *kind;
  text *line;
  size_t chosen;
} editor;

static void redraw(const editor *self) {
  text shown = {.data = NULL};
  text_printf(&shown, "\r\033[K%s", self->prompt);
  if (self->line->len && !self->kind->secret)
    text_escape(&shown, self->line->data, self->line->len, TEXT_LINE);
  if (self->chosen < self->kind->choice_count)
    text_printf(&shown, " %s", self->kind->choices[self->chosen]);
  put(self->at, shown.data, shown.len);
  text_free(&shown);
}

/* The last character, all of its bytes. */
static void erase(editor *self) {
  text *line = self->line;
  while (line->len && ((unsigned char)line->data[line->len - 1] & 0xc0) == 0x80) line->len--;
  if (line->len) line->len--;
  self->chosen = self->kind->choice_count;
}

static void move(editor *self, int by) {
  size_t count = self->kind->choice_count;
  if (!count) return;
  size_t from = self->chosen < count ? self->chosen : by > 0 ? count - 1 : 0;
  self->chosen = (from + count + (size_t)(by > 0 ? 1 : -1)) % count;
  self->line->len = 0;
  text_printf(self->line, "%zu", self->chosen + 1);
}

static void add(editor *self, int key) {
  char byte = (char)key;
  if (key < ' ' || key == 127 || self->line->len == LINE_BYTES) return;
  text_put(self->line, &byte, 1);
  self->chosen = self->kind->choice_count;
}

static bool is_last(const editor *self, int key, line_end *end) {
  switch (key) {
  case '\r':
  case '\n': *end = LINE_TAKEN; return true;
  case 3: *end = LINE_LEFT; return true;
  case 4: *end = LINE_DECLINED; return !self->line->len;
  case KEY_NONE: *end = LINE_GONE; return true;
  default: return false;
  }
}

static void apply(editor *self, int key) {
  switch (key) {
  case KEY_UP: move(self, -1); break;
  case KEY_DOWN: move(self, 1); break;
  case KEY_OTHER: break;
  case 8:
  case 127: erase(self); break;
  case 21: self->line->len = 0; break;
  default: add(self, key);
  }
}

line_end terminal_line(const terminal *self, const char *prompt, const line_kind *kind,
                       text *line) {
  editor made = {self, prompt, kind, line, kind->choices ? kind->chosen : kind->choice_count};
  line_end end;
  line->len = 0;
  text_puts(line, "");
  for (;;) {
    redraw(&made);
    int key = next_key(self);
    if (is_last(&made, key, &end)) break;
    apply(&made, key);
  }
  line->data[line->len] = 0;
  terminal_print(self, "\n");
  return end;
}
