/* message.c - so many messages of 100 bytes through a conn in process, and nothing else: what
 * bench/instructions counts. `message N`. */
#include <idem/idem.h>
#include <stdlib.h>

static void on_echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static const char text[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"echo\",\"params\":{\"name\":"
    "\"x\",\"text\":\"hello, world hello\"}}\n";

static bool answer(idem_conn *conn) {
  idem_chunk chunk;
  if (idem_conn_feed(conn, text, sizeof text - 1) != IDEM_OK || !idem_conn_next_chunk(conn, &chunk))
    return false;
  idem_chunk_free(&chunk);
  return true;
}

int main(int argc, char **argv) {
  idem_router *router;
  idem_conn *conn;
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
  if (idem_router_new(&(idem_router_opts){0}, &router) != IDEM_OK ||
      idem_router_method(router, "echo", on_echo, NULL) != IDEM_OK ||
      idem_conn_new(&(idem_conn_opts){.router = router}, &conn) != IDEM_OK)
    return 1;
  for (unsigned long i = 0; i < count; i++)
    if (!answer(conn)) return 1;
  idem_conn_free(conn);
  idem_router_free(router);
  return 0;
}
