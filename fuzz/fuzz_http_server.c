/* fuzz_http_server.c - any bytes at a whole JSON-RPC server over HTTP and WebSocket: the same
 * answers at any split, nothing leaked, whatever is asked. */
#include "http_fuzz.h"

#include "http/rpc_endpoint.h"

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void chatty(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_notify_json(idem_request_conn(request), "note", "[1]", 3);
  idem_reply_json(request, "true", 4);
}

static void hello(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn;
  (void)params;
  (void)user;
}

static idem_router *router;
static void make_router(void) {
  if (router) return;
  MUST(idem_router_new(NULL, &router) == IDEM_OK);
  MUST(idem_router_method(router, "echo", echo, NULL) == IDEM_OK);
  MUST(idem_router_method(router, "chatty", chatty, NULL) == IDEM_OK);
  MUST(idem_router_notification(router, "hello", hello, NULL) == IDEM_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const idem__http_rules rules = {.event_streams = true, .notification_status = 202};
  static const char *const proxies[] = {"0.0.0.0/0", "::/0", NULL};
  static const idem_http_opts http = {.trusted_proxies = proxies};
  idem__http_rpc *rpc;
  idem_http_server *server;
  make_router();
  MUST(idem__http_rpc_new(&(idem__http_rpc_opts){.router = router, .rules = &rules}, &rpc) ==
       IDEM_OK);
  MUST(idem__http_server_new(
           &(idem__http_server_opts){
               .http = &http, .body_bytes = 4096, .port = 80, .loopback = true},
           &server) == IDEM_OK);
  MUST(idem__http_rpc_add(rpc, server, "/", false, false) == IDEM_OK);
  http_fuzz_compare(server, data, size);
  idem__http_server_free(server);
  idem__http_rpc_free(rpc);
  return 0;
}
