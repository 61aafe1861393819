/* http_server.c - one method over HTTP and WebSocket, for those who know the token.
 * IDEM_TOKEN=secret http_server http://127.0.0.1:8420/ */
#include <idem/idem.h>
#include <idem/uv.h>

#include <stdio.h>
#include <stdlib.h>

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  if (params)
    idem_reply(request, params);
  else
    idem_reply_json(request, "null", 4);
}

static int serve(const idem_router *router, const char *url, const char *token) {
  const char *const tokens[] = {token, NULL};
  const char *const origins[] = {"app.example", "localhost:*", NULL};
  idem_http_opts http = {.tokens = token ? tokens : NULL,
                         .allow_origins = origins,
                         .rate_count = 100,
                         .rate_seconds = 1,
                         .workers = 2};
  return idem_run(&url, 1, &(idem_serve_opts){.router = router, .http = &http});
}

int main(int argc, char **argv) {
  idem_router *router;
  if (idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, &router) != IDEM_OK ||
      idem_router_method(router, "echo", echo, NULL) != IDEM_OK) {
    fprintf(stderr, "http_server: no memory\n");
    return 1;
  }
  int code = serve(router, argc > 1 ? argv[1] : "http://127.0.0.1:8420/", getenv("IDEM_TOKEN"));
  idem_router_free(router);
  return code;
}
