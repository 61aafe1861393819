/* both_roles.c - two conns in one process, joined in memory, that both serve and call. The server
 * answers `greet` only after asking its caller for a name on the same conn. */
#include <idem/idem.h>
#include <stdio.h>

/* ------------------------------------------------------------------- the server's side */

static void on_name(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  idem_request *request = user;
  const char *name = yyjson_get_str(response->result);
  if (response->status != IDEM_OK || !name) {
    idem_reply_error_text(request, 1, "Nobody to greet", idem_status_text(response->status));
    return;
  }
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *result = yyjson_mut_arr(doc);
  bool built =
      yyjson_mut_arr_add_str(doc, result, "hello") && yyjson_mut_arr_add_strcpy(doc, result, name);
  idem_reply_mut(request, built ? result : NULL);
}

static void greet(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem_call_opts opts = {.timeout_ms = 1000};
  idem_request_keep(request);
  idem_status status =
      idem_call(idem_request_conn(request), "name", NULL, &opts, on_name, request, NULL);
  if (status != IDEM_OK) idem_request_drop(request); /* on_name will not run */
}

/* ------------------------------------------------------------------- the client's side */

static void tell_name(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem_reply_json(request, "\"Ada\"", 5);
}

static void on_greeting(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn, (void)user;
  printf("the call ended: %s\n", idem_status_text(response->status));
}

/* ---------------------------------------------------------------------------- the wire */

/* Moves what one side has to say to the other; false when it had nothing. */
static bool carry(const char *arrow, idem_conn *from, idem_conn *to) {
  idem_chunk chunk;
  if (!idem_conn_next_chunk(from, &chunk)) return false;
  printf("%s %.*s", arrow, (int)chunk.len, chunk.data);
  idem_conn_feed(to, chunk.data, chunk.len);
  idem_chunk_free(&chunk);
  return true;
}

static idem_status open_side(const char *method, idem_method_fn fn, idem_router **router,
                             idem_conn **conn) {
  idem_status status = idem_router_new(NULL, router);
  if (status == IDEM_OK) status = idem_router_method(*router, method, fn, NULL);
  if (status == IDEM_OK) status = idem_conn_new(&(idem_conn_opts){.router = *router}, conn);
  return status;
}

int main(void) {
  idem_router *routers[2] = {NULL, NULL};
  idem_conn *client = NULL, *server = NULL;
  idem_status status = open_side("name", tell_name, &routers[0], &client);
  if (status == IDEM_OK) status = open_side("greet", greet, &routers[1], &server);
  if (status == IDEM_OK) status = idem_call(client, "greet", NULL, NULL, on_greeting, NULL, NULL);
  if (status == IDEM_OK) {
    while (carry("client:", client, server) || carry("server:", server, client)) {
    }
  }
  idem_conn_free(client);
  idem_conn_free(server);
  idem_router_free(routers[0]);
  idem_router_free(routers[1]);
  return status == IDEM_OK ? 0 : 1;
}
