/* inline_image.c - pictures in terminals that can: kitty's protocol (PNG) and iTerm2's (any format).
 * The data is checked base64 before it goes between escape codes of ours. */
#include "print.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INLINE_BYTES ((size_t)8 << 20)
#define KITTY_PIECE 4096u

static bool is_set_to(const char *name, const char *value) {
  const char *found = getenv(name);
  return found && strcmp(found, value) == 0;
}

static bool is_kitty(void) {
  const char *term = getenv("TERM");
  return getenv("KITTY_WINDOW_ID") || (term && strcmp(term, "xterm-kitty") == 0) ||
         is_set_to("TERM_PROGRAM", "ghostty");
}

static bool is_iterm(void) {
  return is_set_to("TERM_PROGRAM", "iTerm.app") || is_set_to("LC_TERMINAL", "iTerm2") ||
         is_set_to("TERM_PROGRAM", "WezTerm");
}

static void put_kitty(FILE *out, const char *base64, size_t len) {
  for (size_t i = 0; i < len; i += KITTY_PIECE) {
    size_t piece = len - i < KITTY_PIECE ? len - i : KITTY_PIECE;
    fprintf(out, "\033_G%sm=%d;", i ? "" : "a=T,f=100,q=2,", i + piece < len);
    fwrite(base64 + i, 1, piece, out);
    fputs("\033\\", out);
  }
  fputc('\n', out);
}

static void put_iterm(FILE *out, const char *base64, size_t len) {
  fputs("\033]1337;File=inline=1:", out);
  fwrite(base64, 1, len, out);
  fputs("\a\n", out);
}

static bool is_plain_base64(const char *data, size_t len) {
  size_t end = len;
  while (end && data[end - 1] == '=') end--;
  for (size_t i = 0; i < end; i++) {
    bool letter = (data[i] >= 'a' && data[i] <= 'z') || (data[i] >= 'A' && data[i] <= 'Z') ||
                  (data[i] >= '0' && data[i] <= '9') || data[i] == '+' || data[i] == '/';
    if (!letter) return false;
  }
  return true;
}

bool inline_image(FILE *out, const char *mime_type, const char *base64, size_t len) {
  bool png = strncasecmp(mime_type, "image/png", 9) == 0;
  bool picture = strncasecmp(mime_type, "image/", 6) == 0;
  if (!picture || len > INLINE_BYTES || !is_plain_base64(base64, len)) return false;
  if (png && is_kitty())
    put_kitty(out, base64, len);
  else if (is_iterm())
    put_iterm(out, base64, len);
  else
    return false;
  return true;
}
