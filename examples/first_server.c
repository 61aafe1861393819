/* first_server.c - the smallest server: one method, over stdin and stdout. */
#include <idem/uv.h>

static void subtract(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  double minuend, subtrahend;
  idem_param_fault fault;
  if (idem_param_double(params, "minuend", 0, &minuend, &fault) != IDEM_OK ||
      idem_param_double(params, "subtrahend", 1, &subtrahend, &fault) != IDEM_OK) {
    idem_reply_invalid_params(request, &fault);
    return;
  }
  idem_reply_mut(request, yyjson_mut_real(idem_request_doc(request), minuend - subtrahend));
}

int main(void) {
  idem_router *router;
  if (idem_router_new(NULL, &router) != IDEM_OK) return 1;
  if (idem_router_method(router, "subtract", subtract, NULL) != IDEM_OK) return 1;
  int code = idem_run((const char *const[]){"stdio:"}, 1, &(idem_serve_opts){.router = router});
  idem_router_free(router);
  return code;
}
