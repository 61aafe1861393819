/* guard.c - telling a web browser from a peer.
 * A page can make a browser open a socket to a local port, but not choose the first bytes: an HTTP
 * request line, or a TLS handshake. See docs/internals/frame.md. */
#include "parts.h"

#include <string.h>

/* First byte of a TLS record that carries a handshake. No framing of ours can begin with it. */
#define TLS_HANDSHAKE 0x16

static size_t method_len(const char *line, size_t len) {
  size_t n = 0;
  while (n < len && idem__frame_is_token(line[n])) n++;
  return n;
}

bool idem__frame_is_http(const char *line, size_t len) {
  if (len && line[0] == TLS_HANDSHAKE) return true;
  size_t method = method_len(line, len);
  if (method == 0 || method == len || line[method] != ' ') return false;
  size_t word = len; /* where the last word begins; spaces in the target are tolerated */
  while (line[word - 1] != ' ') word--;
  return word > method + 1 && len - word >= 5 && memcmp(line + word, "HTTP/", 5) == 0;
}

bool idem__frame_begins_http(const char *start, size_t len) {
  if (len == 0) return false;
  if (start[0] == TLS_HANDSHAKE) return true;
  size_t method = method_len(start, len);
  return method > 0 && (method == len || start[method] == ' ');
}
