/* test_route.c - an embedder's routes: which one has a path, who may ask it, what it answers, now or later. */
#include "h1.h"

#include "support/fault_alloc.h"

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

static void copy(char *out, const char *text, size_t len) {
  assert_true(len < 64);
  if (len) memcpy(out, text, len);
  out[len] = 0;
}

static void on_gone(void *user) { ((served *)user)->gone++; }
static void on_room(idem_http_exchange *exchange, void *user) {
  assert_ptr_equal(exchange, ((served *)user)->exchange);
  ((served *)user)->rooms++;
}

static void serve(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
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

static void open_routes(http_peer *peer, const idem_http_route *routes, size_t count,
                        const idem_http_opts *given) {
  idem_http_opts http = {0};
  if (given) http = *given;
  http.routes = routes;
  http.route_count = count;
  assert_int_equal(http_peer_init(peer, &(http_peer_opts){.http = &http}), IDEM_OK);
}

static void expect(http_peer *peer, const char *text, const char *status, const char *contains) {
  assert_int_equal(http_peer_reconnect(peer), IDEM_OK);
  feed(peer, text, 0);
  if (!strstr(peer->output, status) || !strstr(peer->output, contains))
    fail_msg("wanted %s with %s, got:\n%s", status, contains, peer->output);
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define ASK(method, path, more) method " " path " HTTP/1.1\r\nHost: localhost\r\n" more "\r\n"

/* -------------------------------------------------------------------- table */

static void the_table_grows_to_its_bound_and_says_so(void **state) {
  http_peer *peer = *state;
  served one = {.answer = hello};
  char path[32];
  idem_http_route route = {.path = path, .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  size_t added = 0;
  idem_status status = IDEM_OK;
  while (status == IDEM_OK && added < 2 * IDEM__HTTP_ROUTES) {
    snprintf(path, sizeof path, "/route/%zu", added);
    status = idem__http_server_add(peer->server, &route, NULL);
    if (status == IDEM_OK) added++;
  }
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_int_equal(added, IDEM__HTTP_ROUTES - 3); /* what the peer serves itself */
  expect(peer, GET("/route/0"), "HTTP/1.1 200 OK", "hello");
  expect(peer, GET("/route/252"), "HTTP/1.1 200 OK", "hello");
  expect(peer, GET("/route/253"), "HTTP/1.1 404", "");
  assert_int_equal(one.calls, 2);
}

static void what_is_no_route_is_refused(void **state) {
  http_peer *peer = *state;
  static const char *const split[] = {"X-A: b\r\nX-C: d", NULL};
  static const char *const framing[] = {"content-length: 5", NULL};
  static const char *const nameless[] = {": x", NULL};
  static const char *const spaced[] = {"X A: b", NULL};
  static const char *const none[] = {NULL}, *const empty[] = {"", NULL};
  const idem_http_route good = {.path = "/a", .methods = IDEM_HTTP_GET, .serve = serve};
  idem_http_route bad[16];
  for (size_t i = 0; i < 16; i++) bad[i] = good;
  bad[0].path = NULL;
  bad[1].path = "a";
  bad[2].path = "/a?b";
  bad[3].path = "/a b";
  bad[4].path = "/a\r\n";
  bad[5].path = "/healthz";
  bad[6].path = "/";
  bad[7].serve = NULL;
  bad[8].headers = split;
  bad[9].headers = framing;
  bad[10].headers = nameless;
  bad[11].headers = spaced;
  bad[12].challenge = "Bearer\r\nX-A: b";
  bad[13].methods = IDEM_HTTP_OTHER;
  bad[14].tokens = none;
  bad[15].tokens = empty;
  for (size_t i = 0; i < 16; i++) {
    idem_status status = idem__http_server_add(peer->server, &bad[i], NULL);
    if (status != IDEM_E_INVAL) fail_msg("%zu: %s", i, idem_status_text(status));
  }
  assert_int_equal(idem__http_server_add(peer->server, &good, NULL), IDEM_OK);
  assert_int_equal(idem__http_server_add(peer->server, &good, NULL), IDEM_E_INVAL);
}

static void a_path_is_its_own_and_what_is_below_goes_to_the_longest(void **state) {
  (void)state;
  served all = {.answer = hello}, files = all, deep = all, exact = all;
  const idem_http_route routes[] = {
      {.path = "/files", .below = true, .methods = IDEM_HTTP_GET, .serve = serve, .user = &files},
      {.path = "/files/deep/",
       .below = true,
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &deep},
      {.path = "/files/deep/x", .methods = IDEM_HTTP_GET, .serve = serve, .user = &exact},
      {.path = "/all", .below = true, .methods = IDEM_HTTP_GET, .serve = serve, .user = &all}};
  http_peer peer;
  open_routes(&peer, routes, 4, NULL);
  expect(&peer, GET("/files"), "200 OK", "");
  expect(&peer, GET("/files/"), "200 OK", "");
  expect(&peer, GET("/files/a/b?c=%2e"), "200 OK", "");
  assert_int_equal(files.calls, 3);
  assert_string_equal(files.path, "/files/a/b");
  assert_string_equal(files.query, "c=%2e");
  expect(&peer, GET("/filesystem"), "404 Not Found", "");
  expect(&peer, GET("/files/deep"), "200 OK", "");
  assert_int_equal(files.calls, 4);
  expect(&peer, GET("/files/deep/y"), "200 OK", "");
  expect(&peer, GET("/files/deep/x/y"), "200 OK", "");
  assert_int_equal(deep.calls, 2);
  expect(&peer, GET("/files/deep/x"), "200 OK", "");
  assert_int_equal(exact.calls, 1);
  assert_int_equal(all.calls, 0);
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------ methods */

static void another_method_is_told_which_are_allowed(void **state) {
  (void)state;
  served one = {.answer = hello};
  const idem_http_route routes[] = {
      {.path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one},
      {.path = "/b", .methods = IDEM_HTTP_PUT | IDEM_HTTP_PATCH, .serve = serve, .user = &one}};
  http_peer peer;
  open_routes(&peer, routes, 2, NULL);
  expect(&peer, ASK("DELETE", "/a", ""), "405 Method Not Allowed", "Allow: GET, HEAD, OPTIONS\r\n");
  expect(&peer, ASK("PROPFIND", "/a", ""), "405 ", "Allow: GET, HEAD, OPTIONS\r\n");
  expect(&peer, ASK("GET", "/b", ""), "405 ", "Allow: PUT, PATCH, OPTIONS\r\n");
  expect(&peer, ASK("OPTIONS", "/b", ""), "204 No Content", "Allow: PUT, PATCH, OPTIONS\r\n");
  expect(&peer, ASK("OPTIONS", "/a", "Origin: http://localhost\r\n"), "204 No Content",
         "Access-Control-Allow-Methods: GET, HEAD\r\n");
  assert_int_equal(one.calls, 0);
  expect(&peer, ASK("PUT", "/b", "Content-Type: application/json\r\nContent-Length: 2\r\n") "{}",
         "200 OK", "hello");
  assert_int_equal(one.method, IDEM_HTTP_PUT);
  assert_string_equal(one.body, "{}");
  http_peer_deinit(&peer);
}

static void head_is_a_get_whose_body_is_left_out(void **state) {
  (void)state;
  served one = {.answer = hello};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  expect(&peer, ASK("HEAD", "/a", ""), "200 OK", "Content-Length: 5\r\n");
  assert_int_equal(http_peer_count(&peer, "hello"), 0);
  assert_int_equal(one.method, IDEM_HTTP_HEAD);
  http_peer_deinit(&peer);
}

static void a_route_answers_the_same_at_any_split(void **state) {
  (void)state;
  static const char *const any[] = {"*", NULL};
  served one = {.answer = hello};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_POST, .serve = serve, .user = &one, .types = any};
  const idem_http_opts http = {.routes = &route, .route_count = 1};
  play_all_splits(&(http_peer_opts){.http = &http},
                  ASK("POST", "/a?b=c", "Content-Length: 9\r\n") "some body", "200 OK",
                  "\r\n\r\nhello", 1);
  assert_int_equal(one.calls, 11);
  assert_string_equal(one.query, "b=c");
  assert_string_equal(one.body, "some body");
}

/* ------------------------------------------------------------------- checks */

static int name_by_key(const idem_http_caller *caller, char *principal, size_t size, void *user) {
  size_t len;
  const char *key = idem_http_caller_header(caller, "x-key", &len);
  (void)user;
  if (!key) return 401;
  snprintf(principal, size, "key %.*s", (int)len, key);
  return 0;
}

static void a_route_has_the_listener_s_token_its_own_or_none(void **state) {
  (void)state;
  served one = {.answer = hello};
  static const char *const listener[] = {"server-token", NULL}, *const own[] = {"operator", NULL};
  const idem_http_route routes[] = {
      {.path = "/strict", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one},
      {.path = "/own",
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &one,
       .tokens = own,
       .challenge = "Bearer realm=\"operators\""},
      {.path = "/public", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one, .no_token = true},
      {.path = "/keyed",
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &one,
       .principal = name_by_key}};
  http_peer peer;
  open_routes(&peer, routes, 4, &(idem_http_opts){.tokens = listener});
  expect(&peer, GET("/strict"), "401 Unauthorized", "WWW-Authenticate: Bearer\r\n");
  expect(&peer, ASK("GET", "/strict", "Authorization: Bearer operator\r\n"), "401 ", "");
  expect(&peer, ASK("GET", "/strict", "Authorization: Bearer server-token\r\n"), "200 OK", "");
  expect(&peer, ASK("GET", "/own", "Authorization: Bearer server-token\r\n"), "401 ",
         "WWW-Authenticate: Bearer realm=\"operators\"\r\n");
  expect(&peer, ASK("GET", "/own", "Authorization: Bearer operator\r\n"), "200 OK", "");
  expect(&peer, GET("/public"), "200 OK", "");
  expect(&peer, GET("/keyed"), "401 ", "");
  expect(&peer, ASK("GET", "/keyed", "X-Key: 7\r\n"), "200 OK", "");
  assert_string_equal(one.principal, "key 7");
  http_peer_deinit(&peer);
}

static void hosts_and_origins_are_checked_unless_a_route_takes_any(void **state) {
  (void)state;
  served one = {.answer = hello};
  const idem_http_route routes[] = {
      {.path = "/strict", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one},
      {.path = "/any",
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &one,
       .any_host = true,
       .any_origin = true}};
  http_peer peer;
  open_routes(&peer, routes, 2, NULL);
  expect(&peer, "GET /strict HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 ", "forbidden-host");
  expect(&peer, ASK("GET", "/strict", "Origin: https://evil.example\r\n"), "403 ", "");
  expect(&peer, "GET /any HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\n\r\n",
         "200 OK", "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: ");
  assert_int_equal(http_peer_count(&peer, "Vary"), 0);
  expect(&peer, ASK("OPTIONS", "/any", "Origin: null\r\nAccess-Control-Request-Method: GET\r\n"),
         "204 ", "Access-Control-Allow-Methods: GET, HEAD\r\n");
  http_peer_deinit(&peer);
}

static void requests_count_against_the_rate_unless_they_do_not(void **state) {
  (void)state;
  served one = {.answer = hello};
  const idem_http_route routes[] = {
      {.path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one},
      {.path = "/b",
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &one,
       .no_rate_limit = true}};
  http_peer peer;
  open_routes(&peer, routes, 2, &(idem_http_opts){.rate_count = 2, .rate_seconds = 60});
  expect(&peer, GET("/b"), "200 OK", "");
  expect(&peer, GET("/a"), "200 OK", "");
  expect(&peer, GET("/a"), "200 OK", "");
  expect(&peer, GET("/a"), "429 ", "Retry-After: ");
  expect(&peer, GET("/b"), "200 OK", "");
  http_peer_deinit(&peer);
}

static void bodies_have_the_types_and_the_length_that_a_route_takes(void **state) {
  (void)state;
  served one = {.answer = hello};
  static const char *const images[] = {"image/png", "image/gif", NULL}, *const any[] = {"*", NULL};
  const idem_http_route routes[] = {
      {.path = "/json", .methods = IDEM_HTTP_POST, .serve = serve, .user = &one},
      {.path = "/image",
       .methods = IDEM_HTTP_POST,
       .serve = serve,
       .user = &one,
       .types = images,
       .body_bytes = 8},
      {.path = "/any", .methods = IDEM_HTTP_POST, .serve = serve, .user = &one, .types = any}};
  http_peer peer;
  open_routes(&peer, routes, 3, NULL);
#define BODY(path, type, body)                                                                     \
  ASK("POST", path, "Content-Type: " type "\r\nContent-Length: " #body "\r\n")
  expect(&peer, BODY("/json", "text/plain", 2) "{}", "415 ", "Content-Type: application/json");
  expect(&peer, BODY("/image", "application/json", 2) "{}", "415 ", "Content-Type: image/png");
  expect(&peer, BODY("/image", "Image/GIF ;x=y", 8) "12345678", "200 OK", "");
  expect(&peer, BODY("/image", "image/png", 9) "123456789", "413 ", "oversize");
  expect(&peer,
         ASK("POST", "/image",
             "Content-Type: image/png\r\nTransfer-Encoding: chunked\r\n") "9\r\n123456789\r\n0\r\n"
                                                                          "\r\n",
         "413 ", "oversize");
  expect(&peer, ASK("POST", "/any", "Content-Length: 2\r\n") "{}", "200 OK", "");
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------ headers */

static void a_route_s_headers_stand_instead_of_the_usual_ones(void **state) {
  (void)state;
  served one = {.answer = hello};
  static const char *const page[] = {"content-security-policy: default-src 'self'", "X-Page: 1",
                                     NULL};
  static const char *const answer[] = {"Cache-Control: max-age=60", "x-page: 2", NULL};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one, .headers = page};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  expect(&peer, GET("/a"), "200 OK",
         "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
         "content-security-policy: default-src 'self'\r\nX-Page: 1\r\n");
  assert_int_equal(http_peer_count(&peer, "default-src 'none'"), 0);
  expect(&peer, ASK("DELETE", "/a", ""), "405 ", "X-Page: 1\r\n");
  one.answer.headers = answer;
  expect(&peer, GET("/a"), "200 OK",
         "X-Content-Type-Options: nosniff\r\ncontent-security-policy: default-src 'self'\r\n"
         "Cache-Control: max-age=60\r\nx-page: 2\r\n");
  assert_int_equal(http_peer_count(&peer, "no-store"), 0);
  assert_int_equal(http_peer_count(&peer, "X-Page: 1"), 0);
  expect(&peer, GET("/else"), "404 ", "default-src 'none'");
  http_peer_deinit(&peer);
}

static void an_answer_that_is_none_is_an_internal_error(void **state) {
  (void)state;
  static const char *const split[] = {"X-A: b\r\nX-C: d", NULL}, *const ours[] = {"Date: now",
                                                                                  NULL};
  served one = {.answer = hello};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  idem_http_answer bad[5] = {hello, hello, hello, hello, hello};
  bad[0].status = 0;
  bad[1].status = 101;
  bad[2].headers = split;
  bad[3].headers = ours;
  bad[4].type = "text/plain\r\nX-C: d";
  for (size_t i = 0; i < 5; i++) {
    one.answer = bad[i];
    expect(&peer, GET("/a"), "500 Internal Server Error", "-32603");
    assert_int_equal(one.status, IDEM_E_INVAL);
  }
  one.silent = true;
  expect(&peer, GET("/a"), "500 Internal Server Error", "-32603");
  http_peer_deinit(&peer);
}

/* -------------------------------------------------------------------- later */

static void an_answer_may_come_later(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  feed(&peer, GET("/a") ECHO, 0);
  assert_int_equal(one.status, IDEM_OK);
  assert_int_equal(peer.output_len, 0);
  assert_int_equal(idem_http_keep(one.exchange, &(idem_http_keep_opts){0}), IDEM_E_INVAL);
  assert_int_equal(idem_http_respond(one.exchange, &hello), IDEM_OK);
  assert_true(peer.wakes > 0);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "hello"));
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void who_has_gone_is_not_waited_for(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one, .max_kept = 1};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  for (size_t i = 1; i <= 3; i++) {
    feed(&peer, GET("/a"), 0);
    assert_int_equal(one.status, IDEM_OK); /* what has gone is not counted */
    assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
    assert_int_equal(one.gone, i);
  }
  feed(&peer, GET("/a"), 0);
  http_peer_eof(&peer); /* which may still read */
  assert_int_equal(one.gone, 3);
  assert_int_equal(idem_http_respond(one.exchange, &hello), IDEM_OK);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "hello"));
  assert_int_equal(one.gone, 3);
  http_peer_deinit(&peer);
}

static void a_kept_request_has_its_time_and_its_bound(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {.path = "/a",
                                 .methods = IDEM_HTTP_GET,
                                 .serve = serve,
                                 .user = &one,
                                 .max_kept = 1,
                                 .answer_ms = 5000};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  feed(&peer, GET("/a"), 0);
  idem_http_conn *other;
  assert_int_equal(
      idem__http_conn_new(&(idem__http_conn_opts){.server = peer.server, .now_ms = peer.now_ms},
                          &other),
      IDEM_OK);
  idem_http_exchange *first = one.exchange;
  idem__http_conn_feed(other, GET("/a"), sizeof GET("/a") - 1, peer.now_ms);
  assert_int_equal(one.status, IDEM_E_LIMIT);
  idem__http_conn_free(other);
  one.exchange = first;
  http_peer_wait(&peer, 4999);
  assert_int_equal(peer.output_len, 0);
  http_peer_wait(&peer, 1);
  assert_non_null(strstr(peer.output, "503 Service Unavailable"));
  assert_int_equal(one.gone, 1);
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

static void a_server_that_stops_gives_time_to_answers_and_ends_streams(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  feed(&peer, GET("/a"), 0);
  idem__http_conn_close(peer.conn, peer.now_ms);
  assert_int_equal(one.gone, 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(one.gone, 1);
  assert_non_null(strstr(peer.output, "503 "));
  assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &(idem_http_answer){.status = 200}),
                   IDEM_OK);
  idem__http_conn_close(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(one.gone, 2);
  assert_non_null(strstr(peer.output, "\r\n0\r\n\r\n"));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------ streams */

static const idem_http_answer events = {.status = 200, .type = "text/event-stream"};

static void a_body_may_come_in_pieces(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one, .answer_ms = 1000};
  http_peer peer;
  open_routes(&peer, &route, 1, &(idem_http_opts){.stream_ms = 7000});
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_write(one.exchange, "x", 1), IDEM_E_INVAL); /* not begun */
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  assert_int_equal(idem_http_stream_write(one.exchange, "data: 1\n\n", 9), IDEM_OK);
  http_peer_wait(&peer, 6999);
  assert_non_null(strstr(peer.output, "Transfer-Encoding: chunked\r\n"));
  assert_non_null(strstr(peer.output, "\r\n\r\n9\r\ndata: 1\n\n\r\n"));
  assert_int_equal(http_peer_count(&peer, ":\n\n"), 0);
  http_peer_wait(&peer, 1);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 1);
  http_peer_wait(&peer, 7000);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 2);
  idem_http_stream_end(one.exchange);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "0\r\n\r\n"));
  feed(&peer, ECHO, 0);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void who_ends_its_input_has_left_a_stream(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  http_peer_eof(&peer);
  assert_int_equal(one.gone, 1);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

static void head_has_all_of_a_stream_with_its_head(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  feed(&peer, ASK("HEAD", "/a", ""), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_E_CLOSED);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "200 OK"));
  feed(&peer, ECHO, 0);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void a_slow_reader_is_waited_for_within_bounds(void **state) {
  (void)state;
  served one = {.keeps = true};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = serve, .user = &one};
  http_peer peer;
  char piece[1000];
  memset(piece, 'x', sizeof piece);
  open_routes(&peer, &route, 1, &(idem_http_opts){.queued_bytes = 20000, .idle_ms = 60000});
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  size_t written = 0;
  while (written < 100 && idem_http_stream_write(one.exchange, piece, sizeof piece) == IDEM_OK)
    written++;
  assert_in_range(written, 19, 21);
  assert_int_equal(idem_http_stream_write(one.exchange, piece, sizeof piece), IDEM_E_LIMIT);
  assert_int_equal(one.rooms, 0);
  http_peer_settle(&peer); /* which reads it all */
  assert_int_equal(one.rooms, 1);
  assert_int_equal(idem_http_stream_write(one.exchange, piece, sizeof piece), IDEM_OK);
  assert_int_equal(one.rooms, 1);
  peer.now_ms += 60001; /* and nothing is read */
  assert_int_equal(idem__http_conn_expire(peer.conn, peer.now_ms), IDEM_E_TIMEOUT);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

/* -------------------------------------------------------------------- files */

static void a_file_is_sent_as_it_is_taken(void **state) {
  (void)state;
  static const idem_http_file file = {.type = "text/css",
                                      .etag = "\"v1\"",
                                      .encoding = "gzip",
                                      .body = "zipped",
                                      .len = 6,
                                      .plain = "unzipped",
                                      .plain_len = 8};
  static const idem_http_file zipped = {
      .type = "text/css", .encoding = "gzip", .body = "z", .len = 1};
  const idem_http_route routes[] = {{.path = "/a.css",
                                     .methods = IDEM_HTTP_GET,
                                     .serve = idem_http_serve_file,
                                     .user = (void *)(uintptr_t)&file},
                                    {.path = "/z.css",
                                     .methods = IDEM_HTTP_GET,
                                     .serve = idem_http_serve_file,
                                     .user = (void *)(uintptr_t)&zipped}};
  http_peer peer;
  open_routes(&peer, routes, 2, NULL);
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: br;q=1, GZIP\r\n"), "200 OK",
         "ETag: \"v1\"\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: *\r\n"), "200 OK", "\r\n\r\nzipped");
  expect(&peer, GET("/a.css"), "200 OK", "\r\n\r\nunzipped");
  assert_int_equal(http_peer_count(&peer, "Content-Encoding"), 0);
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: gzip;q=0, *\r\n"), "200 OK", "unzipped");
  expect(&peer, ASK("HEAD", "/a.css", "Accept-Encoding: gzip\r\n"), "200 OK",
         "Content-Length: 6\r\n");
  assert_int_equal(http_peer_count(&peer, "zipped"), 0);
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: \"v0\", W/\"v1\"\r\n"), "304 Not Modified",
         "ETag: \"v1\"\r\nVary: Accept-Encoding\r\n\r\n");
  assert_int_equal(http_peer_count(&peer, "Content-"), 2); /* the two security headers */
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: *\r\n"), "304 ", "");
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: \"v2\"\r\n"), "200 OK", "");
  expect(&peer, GET("/z.css"), "406 Not Acceptable", "Accept-Encoding: gzip");
  http_peer_deinit(&peer);
}

static void a_large_file_is_sent_without_a_copy(void **state) {
  (void)state;
  char *large = malloc(100000);
  assert_non_null(large);
  memset(large, 'x', 100000);
  idem_http_file file = {.type = "text/plain", .body = large, .len = 100000};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = idem_http_serve_file, .user = &file};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  idem__http_conn_feed(peer.conn, GET("/a"), sizeof GET("/a") - 1, peer.now_ms);
  idem_http_chunk chunk;
  assert_true(idem__http_conn_next_chunk(peer.conn, &chunk));
  idem__http_chunk_free(peer.conn, &chunk, peer.now_ms);
  assert_true(idem__http_conn_next_chunk(peer.conn, &chunk));
  assert_ptr_equal(chunk.data, large);
  assert_int_equal(chunk.len, 100000);
  idem__http_chunk_free(peer.conn, &chunk, peer.now_ms);
  http_peer_deinit(&peer);
  free(large);
}

/* ---------------------------------------------------------------- no memory */

static void play_once(fault_alloc *fault, void *user) {
  static const char *const own[] = {"operator", NULL}, *const types[] = {"image/png", NULL};
  static const char *const headers[] = {"X-Page: 1", NULL};
  served one = {.answer = hello}, later = {.keeps = true};
  one.answer.headers = headers;
  const idem_http_route routes[] = {
      {.path = "/a",
       .methods = IDEM_HTTP_GET,
       .serve = serve,
       .user = &one,
       .tokens = own,
       .types = types,
       .headers = headers,
       .challenge = "Bearer"},
      {.path = "/b", .methods = IDEM_HTTP_GET, .serve = serve, .user = &later}};
  idem_http_opts http = {.routes = routes, .route_count = 2};
  http_peer peer;
  (void)user;
  if (http_peer_init(&peer, &(http_peer_opts){.http = &http, .alloc = &fault->alloc}) == IDEM_OK) {
    feed(&peer, ASK("GET", "/a", "Authorization: Bearer operator\r\n") GET("/b"), 0);
    if (later.calls && later.status == IDEM_OK &&
        idem_http_stream_begin(later.exchange, &events) == IDEM_OK)
      idem_http_stream_write(later.exchange, "data: 1\n\n", 9);
    if (peer.status == IDEM_OK) http_peer_settle(&peer);
  }
  size_t kept = later.calls && later.status == IDEM_OK;
  http_peer_deinit(&peer);
  assert_true(later.gone <= kept);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(play_once, NULL, 300) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_PEER(the_table_grows_to_its_bound_and_says_so),
      WITH_PEER(what_is_no_route_is_refused),
      cmocka_unit_test(a_path_is_its_own_and_what_is_below_goes_to_the_longest),
      cmocka_unit_test(another_method_is_told_which_are_allowed),
      cmocka_unit_test(head_is_a_get_whose_body_is_left_out),
      cmocka_unit_test(a_route_answers_the_same_at_any_split),
      cmocka_unit_test(a_route_has_the_listener_s_token_its_own_or_none),
      cmocka_unit_test(hosts_and_origins_are_checked_unless_a_route_takes_any),
      cmocka_unit_test(requests_count_against_the_rate_unless_they_do_not),
      cmocka_unit_test(bodies_have_the_types_and_the_length_that_a_route_takes),
      cmocka_unit_test(a_route_s_headers_stand_instead_of_the_usual_ones),
      cmocka_unit_test(an_answer_that_is_none_is_an_internal_error),
      cmocka_unit_test(an_answer_may_come_later),
      cmocka_unit_test(who_has_gone_is_not_waited_for),
      cmocka_unit_test(a_kept_request_has_its_time_and_its_bound),
      cmocka_unit_test(a_server_that_stops_gives_time_to_answers_and_ends_streams),
      cmocka_unit_test(a_body_may_come_in_pieces),
      cmocka_unit_test(who_ends_its_input_has_left_a_stream),
      cmocka_unit_test(head_has_all_of_a_stream_with_its_head),
      cmocka_unit_test(a_slow_reader_is_waited_for_within_bounds),
      cmocka_unit_test(a_file_is_sent_as_it_is_taken),
      cmocka_unit_test(a_large_file_is_sent_without_a_copy),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
