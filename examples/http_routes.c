/* http_routes.c - routes of one's own beside JSON-RPC at /rpc: a page, a public document, and a feed of what is said
 * for who has the operator's key. IDEM_OPERATOR=secret http_routes http://127.0.0.1:8420/rpc */
#include <idem/idem.h>
#include <idem/uv.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READERS 16

/* Who reads the feed. All of it runs on one loop, so nothing is locked. */
typedef struct reader {
  idem_http_exchange *exchange; /* NULL: nobody */
} reader;
static reader readers[READERS];

static void on_gone(void *user) { ((reader *)user)->exchange = NULL; }

static void serve_feed(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  (void)request;
  (void)user;
  size_t i = 0;
  while (i < READERS && readers[i].exchange) i++;
  if (i == READERS ||
      idem_http_keep(exchange, &(idem_http_keep_opts){.on_gone = on_gone, .user = &readers[i]}) !=
          IDEM_OK) {
    idem_http_respond(exchange, &(idem_http_answer){.status = 503});
    return;
  }
  idem_http_answer head = {.status = 200, .type = "text/event-stream"};
  if (idem_http_stream_begin(exchange, &head) == IDEM_OK) readers[i].exchange = exchange;
}

/* Who reads too slowly has not room for it, and misses it. */
static void tell(const char *text, size_t len) {
  char event[300];
  int size = snprintf(event, sizeof event, "data: %.*s\n\n", len < 256 ? (int)len : 256, text);
  for (size_t i = 0; i < READERS; i++)
    if (readers[i].exchange) idem_http_stream_write(readers[i].exchange, event, (size_t)size);
}

static void say(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  yyjson_val *text = yyjson_obj_get(params, "text");
  if (!yyjson_is_str(text) || strpbrk(yyjson_get_str(text), "\r\n")) {
    idem_reply_error(request, IDEM_RPC_INVALID_PARAMS, NULL, NULL);
    return;
  }
  tell(yyjson_get_str(text), yyjson_get_len(text));
  idem_reply_json(request, "true", 4);
}

static int serve(const idem_router *router, const char *url, const char *key) {
  static const char html[] = "<!doctype html><title>idem</title><p>Say something at /rpc.\n";
  static const char document[] = "{\"name\":\"http_routes\"}\n";
  static idem_http_file page = {
      .type = "text/html; charset=utf-8", .etag = "\"1\"", .body = html, .len = sizeof html - 1};
  static idem_http_file about = {
      .type = "application/json", .body = document, .len = sizeof document - 1};
  const char *const keys[] = {key, NULL};
  const char *const page_headers[] = {"Cache-Control: no-cache",
                                      "Content-Security-Policy: default-src 'self'", NULL};
  const idem_http_route routes[] = {
      {.path = "/",
       .methods = IDEM_HTTP_GET,
       .serve = idem_http_serve_file,
       .user = &page,
       .headers = page_headers},
      {.path = "/.well-known/about",
       .methods = IDEM_HTTP_GET,
       .serve = idem_http_serve_file,
       .user = &about,
       .no_token = true,
       .any_origin = true},
      {.path = "/feed", .methods = IDEM_HTTP_GET, .serve = serve_feed, .tokens = keys}};
  idem_http_opts http = {.routes = routes, .route_count = 3};
  return idem_run(&url, 1, &(idem_serve_opts){.router = router, .http = &http});
}

int main(int argc, char **argv) {
  const char *key = getenv("IDEM_OPERATOR");
  idem_router *router;
  if (idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, &router) != IDEM_OK ||
      idem_router_method(router, "say", say, NULL) != IDEM_OK) {
    fprintf(stderr, "http_routes: no memory\n");
    return 1;
  }
  int code =
      serve(router, argc > 1 ? argv[1] : "http://127.0.0.1:8420/rpc", key ? key : "operator");
  idem_router_free(router);
  return code;
}
