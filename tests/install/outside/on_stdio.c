/* on_stdio.c - the libuv runtime: serves one method on standard input and output.
 * Built against the installed libraries alone, with pkg-config and with CMake. */
#include <idem/uv.h>

static void greet(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_json(request, "\"hello\"", 7);
}

int main(void) {
  idem_router *router = NULL;
  if (idem_router_new(NULL, &router) != IDEM_OK) return 1;
  if (idem_router_method(router, "greet", greet, NULL) != IDEM_OK) return 1;
  idem_serve_opts opts = {.router = router};
  int code = idem_run((const char *const[]){"stdio:"}, 1, &opts);
  idem_router_free(router);
  return code;
}
