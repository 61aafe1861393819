/* http_fuzz.h - a connection for the HTTP fuzz targets: feeds the input whole or in pieces and
 * keeps what comes out, so that a target can ask whether both say the same. */
#ifndef IDEM_HTTP_FUZZ_H
#define IDEM_HTTP_FUZZ_H

#include "http/http.h"

#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) abort();                                                                     \
  } while (0)

typedef struct http_fuzz_output {
  char *text;
  size_t len;
} http_fuzz_output;

static void http_fuzz_collect(idem_http_conn *conn, http_fuzz_output *out, uint64_t now_ms) {
  idem_http_chunk chunk;
  while (idem__http_conn_next_chunk(conn, &chunk)) {
    out->text = realloc(out->text, out->len + chunk.len + 1);
    MUST(out->text);
    memcpy(out->text + out->len, chunk.data, chunk.len);
    out->len += chunk.len;
    out->text[out->len] = 0;
    idem__http_chunk_free(conn, &chunk, now_ms);
  }
}

/* `seed` 0: whole; otherwise pieces of pseudo-random length. */
static http_fuzz_output http_fuzz_play(idem_http_server *server, const uint8_t *data, size_t size,
                                       unsigned seed) {
  http_fuzz_output out = {calloc(1, 1), 0};
  idem_http_conn *conn;
  idem_status status = idem__http_conn_new(
      &(idem__http_conn_opts){.server = server, .peer = "fuzz", .now_ms = 1000}, &conn);
  MUST(status == IDEM_OK && out.text);
  while (size && status == IDEM_OK) {
    size_t take = size;
    if (seed) take = 1 + (seed = seed * 1103515245u + 12345u) / 65536u % 37u;
    if (take > size) take = size;
    char *lent = malloc(take);
    MUST(lent);
    memcpy(lent, data, take);
    status = idem__http_conn_feed(conn, lent, take, 1000);
    free(lent);
    http_fuzz_collect(conn, &out, 1000);
    while (status == IDEM_OK && idem__http_conn_deadline(conn) <= 1000) {
      status = idem__http_conn_expire(conn, 1000);
      http_fuzz_collect(conn, &out, 1000);
    }
    data += take;
    size -= take;
  }
  if (status == IDEM_OK) (void)idem__http_conn_feed_eof(conn, 1000); /* the conn ends either way */
  http_fuzz_collect(conn, &out, 1000);
  idem__http_conn_free(conn);
  return out;
}

/* The same bytes in any pieces give the same answers. */
static inline void http_fuzz_compare(idem_http_server *server, const uint8_t *data, size_t size) {
  http_fuzz_output whole = http_fuzz_play(server, data, size, 0);
  for (unsigned seed = 1; seed < 4; seed++) {
    http_fuzz_output pieces = http_fuzz_play(server, data, size, seed);
    MUST(whole.len == pieces.len && memcmp(whole.text, pieces.text, whole.len) == 0);
    free(pieces.text);
  }
  free(whole.text);
}

#endif
