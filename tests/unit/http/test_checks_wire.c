/* test_checks_wire.c - who may ask, as a client meets it: hosts, origins and tokens in requests, what a browser is
 * told, and shares of a client. */
#include "support/fault_alloc.h"
#include "support/http_peer.h"
#include "support/unit.h"

#include <stdio.h>

static idem__view view(const char *text) { return (idem__view){text, strlen(text)}; }

#define BODY "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"echo\"}"
#define POST(host, headers)                                                                        \
  "POST / HTTP/1.1\r\nHost: " host "\r\nContent-Type: application/json\r\n" headers                \
  "Content-Length: 42\r\n\r\n" BODY

static void expect(http_peer *peer, const char *text, const char *status, const char *contains) {
  http_peer_forget_output(peer);
  http_peer_feed(peer, text, strlen(text), 0);
  if (!strstr(peer->output, status) || !strstr(peer->output, contains))
    fail_msg("wanted %s with %s, got\n%s", status, contains, peer->output);
}

static void a_foreign_host_is_refused_with_the_flag_to_add(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, POST("evil.example:8420", ""), "HTTP/1.1 403 Forbidden",
         "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid "
         "Request\",\"data\":{\"reason\":\"forbidden-host\",\"hint\":\"--allow-host "
         "evil.example:8420\"}}}");
  expect(&peer, POST("a\"b<script>", ""), "HTTP/1.1 403", "--allow-host a\\\"b<script>");
  expect(&peer, POST("localhost", ""), "HTTP/1.1 200 OK", "\"id\":\"a\"");
  http_peer_deinit(&peer);
}

static void every_host_is_accepted_elsewhere_unless_a_list_is_given(void **state) {
  (void)state;
  static const char *const list[] = {"api.example", NULL};
  idem_http_opts http = {.allow_hosts = list};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.not_loopback = true}), IDEM_OK);
  expect(&peer, POST("any.example", ""), "HTTP/1.1 200 OK", "");
  http_peer_deinit(&peer);
  http_peer_opts opts = {.http = &http, .not_loopback = true};
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("any.example", ""), "HTTP/1.1 403", "forbidden-host");
  expect(&peer, POST("api.example", ""), "HTTP/1.1 200 OK", "");
  http_peer_deinit(&peer);
}

/* Health checks, metrics and the address that was printed go by them; a page of another name cannot. */
static void names_are_added_to_those_of_this_machine(void **state) {
  static const char *const list[] = {"api.example", NULL};
  static const idem_http_opts http = {.allow_hosts = list};
  (void)state;
  for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
    http_peer peer;
    http_peer_opts opts = {.http = &http, .not_loopback = elsewhere, .host = "192.0.2.7"};
    assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
    expect(&peer, POST("localhost:8420", ""), "HTTP/1.1 200 OK", "");
    expect(&peer, POST("127.0.0.1", ""), "HTTP/1.1 200 OK", "");
    expect(&peer, POST("[::1]:8420", ""), "HTTP/1.1 200 OK", "");
    expect(&peer, POST("192.0.2.7:8420", ""), "HTTP/1.1 200 OK", "");
    expect(&peer, POST("api.example", ""), "HTTP/1.1 200 OK", "");
    expect(&peer, POST("192.0.2.8", ""), "HTTP/1.1 403", "--allow-host 192.0.2.8");
    expect(&peer, POST("localhost.evil.example", ""), "HTTP/1.1 403", "forbidden-host");
    http_peer_deinit(&peer);
  }
}

/* Else a list of others' pages would take the server's own page away. */
static void a_listener_on_loopback_allows_its_own_pages_beside_a_list(void **state) {
  static const char *const list[] = {"app.example", NULL};
  static const idem_http_opts http = {.allow_origins = list};
  (void)state;
  http_peer peer;
  http_peer_opts opts = {.http = &http, .host = "127.0.0.2"};
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "Origin: http://localhost:8420\r\n"), "HTTP/1.1 200 OK", "");
  expect(&peer, POST("localhost", "Origin: http://127.0.0.2:8420\r\n"), "HTTP/1.1 200 OK", "");
  expect(&peer, POST("localhost", "Origin: http://localhost:3000\r\n"), "HTTP/1.1 403",
         "forbidden-origin");
  http_peer_deinit(&peer);
  opts.not_loopback = true;
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("any.example", "Origin: http://localhost:8420\r\n"), "HTTP/1.1 403",
         "forbidden-origin");
  http_peer_deinit(&peer);
}

static void a_foreign_origin_is_refused_with_the_flag_to_add(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, POST("localhost", "Origin: https://evil.example\r\n"), "HTTP/1.1 403 Forbidden",
         "\"reason\":\"forbidden-origin\",\"hint\":\"--allow-origin evil.example\"");
  assert_int_equal(http_peer_count(&peer, "Access-Control"), 0);
  expect(&peer, POST("localhost", "Origin: null\r\n"), "HTTP/1.1 403",
         "\"data\":{\"reason\":\"forbidden-origin\"}}");
  expect(&peer, POST("localhost", "Origin: http://localhost\r\nOrigin: http://localhost\r\n"),
         "HTTP/1.1 403", "forbidden-origin");
  http_peer_deinit(&peer);
}

static void an_application_s_origin_is_named_with_its_scheme(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, POST("localhost", "Origin: tauri://localhost\r\n"), "HTTP/1.1 403 ",
         "\"hint\":\"--allow-origin tauri://localhost\"");
  http_peer_deinit(&peer);
}

static void an_allowed_origin_gets_its_cors_headers(void **state) {
  (void)state;
  static const char *const list[] = {"app.example", NULL};
  idem_http_opts http = {.allow_origins = list};
  http_peer peer;
  http_peer_opts opts = {
      .http = &http, .allow_headers = "Mcp-Method", .expose_headers = "Mcp-Session-Id"};
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "Origin: https://app.example\r\n"), "HTTP/1.1 200 OK",
         "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n"
         "Access-Control-Expose-Headers: Retry-After, WWW-Authenticate, Mcp-Session-Id\r\n");
  expect(&peer,
         "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n"
         "Access-Control-Request-Method: POST\r\n\r\n",
         "HTTP/1.1 204 No Content",
         "Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Headers: Authorization, "
         "Content-Type, Accept, Mcp-Method\r\n");
  assert_int_equal(http_peer_count(&peer, "Content-Length"), 0);
  expect(&peer, "OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 204",
         "Allow: POST, OPTIONS\r\n");
  assert_int_equal(http_peer_count(&peer, "Access-Control"), 0);
  expect(&peer, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 204", "");
  http_peer_deinit(&peer);
}

#define PREFLIGHT(names)                                                                           \
  "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"                          \
  "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: " names "\r\n\r\n"

/* To a browser "Mcp-Param-*" is the name of one header. */
static void headers_with_an_allowed_beginning_are_named_back(void **state) {
  (void)state;
  static const http_peer_opts opts = {.allow_headers = "X-One", .allow_prefix = "X-Param-"};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, PREFLIGHT("content-type,x-param-city, X-Param-Zip ,x-param-,x-other,x-param-a b"),
         "HTTP/1.1 204 ", "Content-Type, Accept, X-One, x-param-city, X-Param-Zip\r\n");
  expect(&peer, PREFLIGHT("x-other"), "HTTP/1.1 204 ", "Content-Type, Accept, X-One\r\n");
  char many[8192] = "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
                    "Access-Control-Request-Headers: x-param-a";
  while (strlen(many) < sizeof many - 64) strcat(many, ",x-param-bcdefghijklmnopqrstuvwxyz");
  strcat(many, "\r\n\r\n");
  expect(&peer, many, "HTTP/1.1 204 ", "vwxyz\r\nAccess-Control-Max-Age: 600\r\n\r\n");
  http_peer_deinit(&peer);
}

static void who_misses_the_endpoint_is_told_where_it_is(void **state) {
  (void)state;
  static const char get[] = "GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n";
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, get, "HTTP/1.1 404 ",
         "\"data\":{\"reason\":\"unavailable\",\"hint\":\"the endpoint is /\"}}}");
  http_peer_deinit(&peer);
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.secret_path = true}), IDEM_OK);
  expect(&peer, get, "HTTP/1.1 404 ", "\"data\":{\"reason\":\"unavailable\"}}}");
  http_peer_deinit(&peer);
}

static void without_the_token_everything_but_health_is_401(void **state) {
  (void)state;
  static const char *const tokens[] = {"old-secret", "new-secret", NULL};
  idem_http_opts http = {.tokens = tokens};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  expect(&peer, POST("localhost", ""), "HTTP/1.1 401 ", "WWW-Authenticate: Bearer\r\n");
  expect(&peer, POST("localhost", "Authorization: Bearer nope\r\n"), "HTTP/1.1 401 ",
         "\"reason\":\"unauthorized\"");
  expect(&peer,
         POST("localhost", "Authorization: Bearer old-secret\r\nAuthorization: Bearer x\r\n"),
         "HTTP/1.1 400 ", "WWW-Authenticate: Bearer error=\"invalid_request\"\r\n");
  expect(&peer, POST("localhost", "Authorization: Basic x\r\nAuthorization: Bearer old-secret\r\n"),
         "HTTP/1.1 400 ",
         "\"data\":{\"reason\":\"two-credentials\",\"hint\":\"one Authorization header\"}");
  expect(&peer, POST("localhost", "Authorization: Bearer old-secret\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", "Authorization: Bearer new-secret\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401 ", "");
  expect(&peer, "PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401 ", "");
  expect(&peer, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 ", "ok");
  expect(&peer,
         "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer old-secret\r\n\r\n",
         "HTTP/1.1 200 ", "auth_failures");
  http_peer_deinit(&peer);
}

static void an_empty_token_list_is_refused(void **state) {
  (void)state;
  static const char *const none[] = {NULL}, *const empty[] = {"", NULL};
  idem_http_opts http = {.tokens = none};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_E_INVAL);
  http_peer_deinit(&peer);
  http.tokens = empty;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_E_INVAL);
  http_peer_deinit(&peer);
}

/* MUST tools.rate 2025-03-26+ */
static void over_the_rate_is_429_with_the_id_and_when_to_retry(void **state) {
  (void)state;
  idem_http_opts http = {.rate_count = 2, .rate_seconds = 10};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  expect(&peer, POST("localhost", ""), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", ""), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", ""), "HTTP/1.1 429 Too Many Requests", "Retry-After: 5\r\n");
  assert_non_null(
      strstr(peer.output, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32000,"));
  assert_non_null(strstr(peer.output, "\"data\":{\"reason\":\"rate-limited\"}"));
  http_peer_wait(&peer, 5000);
  expect(&peer, POST("localhost", ""), "HTTP/1.1 200 ", "");
  http_peer_deinit(&peer);
}

static void each_batch_element_counts(void **state) {
  (void)state;
  idem_http_opts http = {.rate_count = 2, .rate_seconds = 10};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  static const char body[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"},"
                             "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"},"
                             "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"echo\"}]";
  char text[400];
  snprintf(text, sizeof text,
           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Content-Length: %zu\r\n\r\n%s",
           sizeof body - 1, body);
  expect(&peer, text, "HTTP/1.1 200 ", "\"id\":3,\"error\":{\"code\":-32000");
  assert_int_equal(http_peer_count(&peer, "\"result\":"), 2);
  expect(&peer, text, "HTTP/1.1 429 ", "\"id\":1,\"error\"");
  http_peer_deinit(&peer);
}

static void a_notification_over_the_rate_is_dropped_without_a_body(void **state) {
  (void)state;
  idem_http_opts http = {.rate_count = 1, .rate_seconds = 10};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  static const char text[] =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
      "\r\nContent-Length: 34\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}";
  expect(&peer, text, "HTTP/1.1 204 ", "");
  expect(&peer, text, "HTTP/1.1 429 ", "Retry-After: 10\r\n");
  assert_null(strstr(peer.output, "jsonrpc"));
  assert_int_equal(peer.hellos, 1);
  http_peer_deinit(&peer);
}

static void only_a_trusted_proxy_may_name_the_client(void **state) {
  (void)state;
  static const char *const trusted[] = {"127.0.0.1", "10.0.0.0/8", NULL};
  idem_http_opts http = {.rate_count = 1, .rate_seconds = 10, .trusted_proxies = trusted};
  http_peer peer;
  http_peer_opts opts = {.http = &http};
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\n"), "HTTP/1.1 429 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 1.1.1.1, 9.9.9.9, 10.2.3.4\r\n"),
         "HTTP/1.1 429 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9, 8.8.8.8\r\n"), "HTTP/1.1 200 ", "");
  http_peer_deinit(&peer);
  opts.from = "192.0.2.1";
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "X-Forwarded-For: 7.7.7.1\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 7.7.7.2\r\n"), "HTTP/1.1 429 ", "");
  http_peer_deinit(&peer);
}

/* What a proxy does not write it passes on: there the client says who it is. */
static void one_header_of_a_proxy_is_believed(void **state) {
  (void)state;
  static const char *const trusted[] = {"127.0.0.1", "10.0.0.0/8", NULL};
  idem_http_opts http = {.rate_count = 1, .rate_seconds = 10, .trusted_proxies = trusted};
  http_peer peer;
  http_peer_opts opts = {.http = &http};
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "Forwarded: for=1.1.1.1\r\nX-Forwarded-For: 9.9.9.9\r\n"),
         "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\nForwarded: for=1.1.1.2\r\n"),
         "HTTP/1.1 429 ", "");
  http_peer_deinit(&peer);
  http.client_header = "forwarded";
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "Forwarded: for=\"[2001:db8::1]:4711\";proto=https\r\n"),
         "HTTP/1.1 200 ", "");
  expect(&peer,
         POST("localhost", "Forwarded: For=\"[2001:db8::1]\", for=10.0.0.9\r\n"
                           "X-Forwarded-For: 7.7.7.7\r\n"),
         "HTTP/1.1 429 ", "");
  http_peer_deinit(&peer);
  http.client_header = "X-Real-IP";
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_OK);
  expect(&peer, POST("localhost", "X-Real-IP: 7.7.7.1\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", "X-Real-IP: 7.7.7.1\r\n"), "HTTP/1.1 429 ", "");
  http_peer_deinit(&peer);
  http.client_header = "no: name";
  assert_int_equal(http_peer_init(&peer, &opts), IDEM_E_INVAL);
  http_peer_deinit(&peer);
}

/* Some proxies add a line of their own to those of the client. */
static void several_lines_of_the_header_are_one_list(void **state) {
  (void)state;
  static const char *const trusted[] = {"127.0.0.1", "10.0.0.0/8", NULL};
  idem_http_opts http = {.rate_count = 1, .rate_seconds = 10, .trusted_proxies = trusted};
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http}), IDEM_OK);
  expect(&peer, POST("localhost", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 9.9.9.9\r\n"),
         "HTTP/1.1 200 ", "");
  expect(&peer,
         POST("localhost", "X-Forwarded-For: 1.1.1.2, 9.9.9.9\r\nX-Other: 3\r\n"
                           "x-forwarded-for: 10.0.0.1\r\n"),
         "HTTP/1.1 429 ", "");
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 8.8.8.8\r\n"),
         "HTTP/1.1 200 ", "");
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------- shares */

static void a_client_has_its_share_and_no_more(void **state) {
  (void)state;
  fault_alloc fault;
  idem__shares *shares;
  idem__ip one, two, six, same, local;
  fault_alloc_init(&fault);
  assert_int_equal(idem__shares_new(&fault.alloc, 2, 1, &shares), IDEM_OK);
  assert_true(idem__ip_parse(view("1.2.3.4"), &one) && idem__ip_parse(view("1.2.3.5"), &two));
  assert_true(idem__ip_parse(view("2001:db8::1"), &six) &&
              idem__ip_parse(view("2001:db8::2"), &same));
  assert_true(idem__shares_take(shares, &one) && idem__shares_take(shares, &one));
  assert_false(idem__shares_take(shares, &one));
  assert_true(idem__shares_take(shares, &two));
  assert_true(idem__shares_take(shares, &six) && idem__shares_take(shares, &same));
  assert_false(idem__shares_take(shares, &six)); /* one network, one client */
  idem__shares_give(shares, &one);
  assert_true(idem__shares_take(shares, &one));
  fault_alloc_fail_in(&fault, 1);
  assert_true(idem__ip_parse(view("1.2.3.6"), &same));
  assert_false(idem__shares_take(shares, &same));
  idem__shares_give(shares, &two);
  idem__shares_free(shares);
  fault_alloc_assert_clean(&fault);
  assert_true(idem__ip_parse(view("127.8.0.1"), &local) && idem__ip_loopback(&local));
  assert_true(idem__ip_parse(view("::1"), &local) && idem__ip_loopback(&local));
  assert_false(idem__ip_loopback(&one) || idem__ip_loopback(&six));
}

/* The connections are the proxy's: its clients are counted while they keep one busy. */
static void a_proxy_s_client_has_its_share(void **state) {
  (void)state;
  static const char *const trusted[] = {"127.0.0.1", NULL};
  static const char busy[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "
                             "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                             "dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-For: 9.9.9.9\r\n\r\n";
  idem_http_opts http = {.trusted_proxies = trusted};
  idem__shares *shares;
  http_peer peer;
  assert_int_equal(idem__shares_new(NULL, 1, 1, &shares), IDEM_OK);
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.http = &http, .shares = shares}),
                   IDEM_OK);
  for (int i = 0; i < 3; i++) /* one after the other is one */
    expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\n"), "HTTP/1.1 200 ", "");
  idem_http_conn *first;
  idem__http_conn_opts opts = {.server = peer.server, .now_ms = peer.now_ms};
  assert_true(idem__ip_parse(view("127.0.0.1"), &opts.from));
  assert_int_equal(idem__http_conn_new(&opts, &first), IDEM_OK);
  assert_int_equal(idem__http_conn_feed(first, busy, sizeof busy - 1, peer.now_ms), IDEM_OK);
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\n"), "HTTP/1.1 503 ", "unavailable");
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.8\r\n"), "HTTP/1.1 200 ", "");
  expect(&peer, POST("localhost", ""), "HTTP/1.1 200 ", "");
  idem__http_conn_free(first);
  expect(&peer, POST("localhost", "X-Forwarded-For: 9.9.9.9\r\n"), "HTTP/1.1 200 ", "");
  http_peer_deinit(&peer);
  idem__shares_free(shares);
}

static void answers_carry_the_security_headers(void **state) {
  (void)state;
  http_peer peer;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  expect(&peer, POST("localhost", ""), "X-Content-Type-Options: nosniff\r\n",
         "Cache-Control: no-store\r\n");
  expect(&peer, POST("evil", ""), "X-Content-Type-Options: nosniff\r\n",
         "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n");
  http_peer_deinit(&peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_foreign_host_is_refused_with_the_flag_to_add),
      cmocka_unit_test(every_host_is_accepted_elsewhere_unless_a_list_is_given),
      cmocka_unit_test(names_are_added_to_those_of_this_machine),
      cmocka_unit_test(a_listener_on_loopback_allows_its_own_pages_beside_a_list),
      cmocka_unit_test(a_foreign_origin_is_refused_with_the_flag_to_add),
      cmocka_unit_test(an_application_s_origin_is_named_with_its_scheme),
      cmocka_unit_test(an_allowed_origin_gets_its_cors_headers),
      cmocka_unit_test(headers_with_an_allowed_beginning_are_named_back),
      cmocka_unit_test(who_misses_the_endpoint_is_told_where_it_is),
      cmocka_unit_test(without_the_token_everything_but_health_is_401),
      cmocka_unit_test(an_empty_token_list_is_refused),
      cmocka_unit_test(over_the_rate_is_429_with_the_id_and_when_to_retry),
      cmocka_unit_test(each_batch_element_counts),
      cmocka_unit_test(a_notification_over_the_rate_is_dropped_without_a_body),
      cmocka_unit_test(only_a_trusted_proxy_may_name_the_client),
      cmocka_unit_test(one_header_of_a_proxy_is_believed),
      cmocka_unit_test(a_client_has_its_share_and_no_more),
      cmocka_unit_test(a_proxy_s_client_has_its_share),
      cmocka_unit_test(several_lines_of_the_header_are_one_list),
      cmocka_unit_test(answers_carry_the_security_headers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
