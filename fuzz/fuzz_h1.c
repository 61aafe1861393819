/* fuzz_h1.c - any bytes as an HTTP connection: whole and in pieces they give the same answers.
 * The handler echoes what it was given, so that a body cut wrong shows. */
#include "http_fuzz.h"

static void echo(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  (void)user;
  idem__http_answer answer = {
      .status = 200, .type = "text/plain", .body = request->body.at, .len = request->body.len};
  idem__view extra = idem__http_header_value(request, "x-echo");
  if (extra.at && extra.len) {
    answer.body = extra.at;
    answer.len = extra.len;
  }
  idem__http_respond(exchange, &answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const idem_http_opts http = {.header_bytes = 512, .header_count = 12};
  static const idem_http_route route = {
      .path = "/", .methods = IDEM_HTTP_POST | IDEM_HTTP_GET | IDEM_HTTP_DELETE, .serve = echo};
  idem_http_server *server;
  MUST(
      idem__http_server_new(
          &(idem__http_server_opts){.http = &http, .body_bytes = 256, .port = 80, .loopback = true},
          &server) == IDEM_OK);
  MUST(idem__http_server_add(server, &route, &(idem__http_binding){0}) == IDEM_OK);
  http_fuzz_compare(server, data, size);
  idem__http_server_free(server);
  return 0;
}
