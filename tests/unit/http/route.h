/* route.h - a route of a test's own: its function remembers what it was asked and does what the test says. */
#ifndef IDEM_TEST_HTTP_ROUTE_H
#define IDEM_TEST_HTTP_ROUTE_H

#include "h1.h"

/* A route function that remembers what it was asked and does what the test says. */
typedef struct served {
  idem_http_exchange *exchange; /* kept */
  size_t calls, gone, rooms;
  char path[64], query[64], body[64], principal[64];
  idem_http_method method;
  idem_status status; /* of the last thing it did */
  bool keeps, silent;
  idem_http_answer answer;
} served;

static inline void copy(char *out, const char *text, size_t len) {
  assert_true(len < 64);
  if (len) memcpy(out, text, len);
  out[len] = 0;
}

static inline void on_gone(void *user) { ((served *)user)->gone++; }
static inline void on_room(idem_http_exchange *exchange, void *user) {
  assert_ptr_equal(exchange, ((served *)user)->exchange);
  ((served *)user)->rooms++;
}

static inline void serve(idem_http_exchange *exchange, const idem_http_request *request,
                         void *user) {
  served *one = user;
  size_t len;
  one->calls++;
  one->method = idem_http_request_method(request);
  const char *text = idem_http_request_path(request, &len);
  copy(one->path, text, len);
  text = idem_http_request_query(request, &len);
  copy(one->query, text, len);
  text = idem_http_request_body(request, &len);
  copy(one->body, text, len);
  const char *principal = idem_http_exchange_principal(exchange);
  copy(one->principal, principal, principal ? strlen(principal) : 0);
  if (one->silent) return;
  if (!one->keeps) {
    one->status = idem_http_respond(exchange, &one->answer);
    return;
  }
  one->exchange = exchange;
  one->status = idem_http_keep(
      exchange, &(idem_http_keep_opts){.on_gone = on_gone, .on_room = on_room, .user = one});
  if (one->status != IDEM_OK) idem_http_respond(exchange, &(idem_http_answer){.status = 503});
}

static const idem_http_answer hello = {
    .status = 200, .type = "text/plain", .body = "hello", .len = 5};

static const idem_http_answer events = {.status = 200, .type = "text/event-stream"};

static inline void open_routes(http_peer *peer, const idem_http_route *routes, size_t count,
                               const idem_http_opts *given) {
  idem_http_opts http = {0};
  if (given) http = *given;
  http.routes = routes;
  http.route_count = count;
  assert_int_equal(http_peer_init(peer, &(http_peer_opts){.http = &http}), IDEM_OK);
}

static inline void expect(http_peer *peer, const char *text, const char *status,
                          const char *contains) {
  assert_int_equal(http_peer_reconnect(peer), IDEM_OK);
  feed(peer, text, 0);
  if (!strstr(peer->output, status) || !strstr(peer->output, contains))
    fail_msg("wanted %s with %s, got:\n%s", status, contains, peer->output);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ASK(method, path, more) method " " path " HTTP/1.1\r\nHost: localhost\r\n" more "\r\n"

#endif
