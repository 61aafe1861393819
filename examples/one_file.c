/* one_file.c - a server that is this file, idem.c, idem.h and yyjson: a lamp, on stdin and stdout.
 * cc one_file.c idem.c -lyyjson -lm. See docs/guide/one-file.md. */
#include "idem.h"

#include <stdio.h>
#include <string.h>

static bool lit;

static void set_led(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  bool on;
  idem_param_fault fault;
  if (idem_param_bool(params, "on", 0, &on, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  bool changed = lit != on;
  lit = on; /* here a pin of the chip would be set */
  idem_reply_mut(request, yyjson_mut_bool(idem_request_doc(request), changed));
}

/* Bytes go in, bytes come out: a serial line or a socket would do as well. */
static void put(idem_conn *conn, const char *bytes, size_t len) {
  idem_chunk chunk;
  if (len > 0)
    idem_conn_feed(conn, bytes, len); /* a failure is final, and shows in idem_conn_done */
  else
    idem_conn_feed_eof(conn);
  while (idem_conn_next_chunk(conn, &chunk)) {
    fwrite(chunk.data, 1, chunk.len, stdout);
    idem_chunk_free(&chunk);
  }
  fflush(stdout);
}

int main(void) {
  idem_router *router = NULL;
  idem_conn *conn = NULL;
  idem_status status = idem_router_new(NULL, &router);
  if (status == IDEM_OK) status = idem_router_method(router, "set_led", set_led, NULL);
  if (status == IDEM_OK) status = idem_conn_new(&(idem_conn_opts){.router = router}, &conn);
  char line[4096];
  while (status == IDEM_OK && !idem_conn_done(conn) && fgets(line, sizeof line, stdin))
    put(conn, line, strlen(line));
  if (status == IDEM_OK) put(conn, NULL, 0);
  idem_conn_free(conn);
  idem_router_free(router);
  return status == IDEM_OK ? 0 : 1;
}
