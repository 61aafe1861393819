/* in_memory.c - the engine without any I/O: feeds one request and prints the answer.
 * Built against the installed library alone, with pkg-config and with CMake. */
#include <idem/idem.h>
#include <stdio.h>
#include <string.h>

static void greet(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_json(request, "\"hello\"", 7);
}

static int converse(idem_conn *conn) {
  static const char question[] = "{\"jsonrpc\":\"2.0\",\"id\":1e0,\"method\":\"greet\"}\n";
  if (idem_conn_feed(conn, question, sizeof question - 1) != IDEM_OK) return 1;
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) {
    fwrite(chunk.data, 1, chunk.len, stdout);
    idem_chunk_free(&chunk);
  }
  return 0;
}

int main(void) {
  if (strcmp(idem_version(), IDEM_VERSION) != 0) return 1;
  idem_router *router = NULL;
  idem_conn *conn = NULL;
  int failed = 1;
  if (idem_router_new(NULL, &router) == IDEM_OK &&
      idem_router_method(router, "greet", greet, NULL) == IDEM_OK) {
    idem_conn_opts opts = {.router = router};
    if (idem_conn_new(&opts, &conn) == IDEM_OK) failed = converse(conn);
  }
  idem_conn_free(conn);
  idem_router_free(router);
  return failed;
}
