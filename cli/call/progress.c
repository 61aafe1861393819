/* progress.c - see progress.h. Drawn at most every 50 ms: a server may tell it without end. */
#include "progress.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DRAW_MS 50u
#define BAR 24u

void progress_init(call_progress *self) { *self = (call_progress){.terminal = isatty(2)}; }

static size_t width(void) {
  struct winsize size;
  return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void put_bar(text *out, double share) {
  size_t full = (size_t)(share * BAR + 0.5);
  text_puts(out, "[");
  for (size_t i = 0; i < BAR; i++) text_puts(out, i < full ? "#" : ".");
  text_printf(out, "] %3d%%", (int)(share * 100));
}

void progress_show(call_progress *self, const idem_mcp_progress *news, uint64_t now_ms) {
  text line = {.data = NULL};
  double share = news->total > 0 ? news->progress / news->total : -1;
  if (!self->terminal || (self->shown && now_ms - self->drawn_ms < DRAW_MS)) return;
  text_puts(&line, "\r\033[K");
  if (isfinite(share) && share >= 0)
    put_bar(&line, share > 1 ? 1 : share);
  else if (isfinite(news->progress))
    text_printf(&line, "%.6g", news->progress);
  if (news->message && news->message_len) {
    text_puts(&line, " ");
    size_t room = width() > BAR + 12 ? width() - BAR - 12 : 20;
    text_escape_cut(&line, news->message, news->message_len, room);
  }
  fwrite(line.data, 1, line.len, stderr);
  fflush(stderr);
  text_free(&line);
  self->shown = true;
  self->drawn_ms = now_ms;
}

void progress_clear(call_progress *self) {
  if (self->shown) fputs("\r\033[K", stderr);
  self->shown = false;
}
