/* test_route.c - an embedder's routes: which one has a path, who may ask it, with which headers it answers. */
#include "route.h"

#include "support/fault_alloc.h"

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
  expect(&peer, ASK("GET", "/b", ""), "405 ", "Allow: PUT, PATCH, OPTIONS\r\n");
  expect(&peer, ASK("OPTIONS", "/b", ""), "204 No Content", "Allow: PUT, PATCH, OPTIONS\r\n");
  expect(&peer, ASK("OPTIONS", "/a", "Origin: http://localhost\r\n"), "204 No Content",
         "Access-Control-Allow-Methods: GET, HEAD\r\n");
  assert_int_equal(one.calls, 0);
  expect(&peer, ASK("PUT", "/b", "Content-Type: application/json\r\nContent-Length: 2\r\n") "{}",
         "200 OK", "hello");
  assert_int_equal(one.method, IDEM_HTTP_PUT);
  assert_string_equal(one.body, "{}");
  expect(&peer, ASK("PROPFIND", "/a", ""), "501 Not Implemented", "Connection: close\r\n");
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
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
