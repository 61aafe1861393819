/* clean.c - what a tool printed, as text: JSON has no room for bytes that are none. */
#include "clean.h"

/* How much of it is text. */
static size_t text_before(const char *text, size_t len) {
  size_t at = 0;
  for (size_t taken = 1; at < len && taken; at += taken) {
    uint32_t code;
    taken = idem_utf8_decode(text + at, len - at, &code);
  }
  return at;
}

idem_status clean_put(idem_buf *out, const char *text, size_t len, bool *replaced) {
  *replaced = false;
  for (size_t at = 0; at < len;) {
    size_t good = text_before(text + at, len - at);
    idem_status status = good ? idem_buf_put(out, text + at, good) : IDEM_OK;
    at += good;
    if (status == IDEM_OK && at < len) {
      status = idem_buf_puts(out, "\xEF\xBF\xBD");
      *replaced = true;
      at++;
    }
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}
