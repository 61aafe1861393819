/* test_own_loop.c - an HTTP server in somebody's own loop, by the public headers alone: JSON-RPC, MCP and routes,
 * time and news, whatever ends first. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/mcp_http.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct world {
  uint64_t now_ms;
  size_t wakes, outputs;
  const idem_alloc *alloc;
  idem_router *router;
  idem_server *server;
  idem_http_server *http;
  idem_http_conn *conn;
  char output[65536];
  size_t len;
} world;

static uint64_t now_ns(void *ctx) { return ((const world *)ctx)->now_ms * 1000000u; }
static uint64_t wall_ms(void *ctx) {
  (void)ctx;
  return 1000;
}
static void random_bytes(void *ctx, void *bytes, size_t len) {
  static unsigned next;
  (void)ctx;
  for (size_t i = 0; i < len; i++) ((unsigned char *)bytes)[i] = (unsigned char)(next++ * 37);
}
static void on_wake(void *user) { ((world *)user)->wakes++; }
static void on_output(idem_http_conn *conn, void *user) {
  assert_ptr_equal(idem_http_conn_user(conn), user);
  ((world *)user)->outputs++;
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}
static void call(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "called", 6);
}
static void hello(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  (void)request, (void)user;
  idem_http_respond(exchange, &(idem_http_answer){.status = 200, .body = "hello", .len = 5});
}

static const idem_tool tool = {.name = "one", .input_schema = "{\"type\":\"object\"}", .fn = call};
static const idem_tool other = {.name = "two", .input_schema = "{\"type\":\"object\"}", .fn = call};

static idem_status open_server(world *w) {
  idem_server_opts opts = {
      .name = "own", .version = "1", .random = random_bytes, .wall_ms = wall_ms, .alloc = w->alloc};
  idem_status status = idem_server_new(&opts, &w->server);
  if (status == IDEM_OK) status = idem_server_add_tool(w->server, &tool, NULL, 0);
  if (status == IDEM_OK)
    status = idem_router_new(&(idem_router_opts){.alloc = w->alloc}, &w->router);
  return status == IDEM_OK ? idem_router_method(w->router, "echo", echo, NULL) : status;
}

static idem_status open_http(world *w, bool wakes) {
  static const idem_http_route route = {.path = "/hello", .methods = IDEM_HTTP_GET, .serve = hello};
  const idem_http_opts http = {
      .routes = &route, .route_count = 1, .rate_count = 1000, .session_idle_ms = 60000};
  idem_http_server_opts opts = {.http = &http,
                                .port = 80,
                                .loopback = true,
                                .now_ns = now_ns,
                                .clock_ctx = w,
                                .alloc = w->alloc,
                                .seed = 7};
  if (wakes) opts.wake = on_wake;
  opts.wake_user = w;
  idem_status status = idem_http_server_new(&opts, &w->http);
  if (status == IDEM_OK) status = idem_http_server_add_router(w->http, "/rpc", w->router, NULL);
  return status == IDEM_OK ? idem_http_server_add_mcp(w->http, "/mcp", w->server, &http) : status;
}

static idem_status connect_to(world *w) {
  idem_http_conn_free(w->conn);
  w->len = 0;
  w->output[0] = 0;
  idem_http_conn_opts opts = {.address = "127.0.0.1", .on_output = on_output, .user = w};
  return idem_http_conn_new(w->http, &opts, &w->conn);
}

static idem_status open_world(world *w, const idem_alloc *alloc, bool wakes) {
  *w = (world){.now_ms = 1000000, .alloc = alloc};
  idem_status status = open_server(w);
  if (status == IDEM_OK) status = open_http(w, wakes);
  return status == IDEM_OK ? connect_to(w) : status;
}

static void close_world(world *w) {
  idem_http_conn_free(w->conn);
  idem_http_server_free(w->http);
  idem_server_free(w->server);
  idem_router_free(w->router);
}

static void take(world *w) {
  idem_http_chunk chunk;
  while (idem_http_conn_next_chunk(w->conn, &chunk)) {
    assert_true(w->len + chunk.len < sizeof w->output);
    memcpy(w->output + w->len, chunk.data, chunk.len);
    w->len += chunk.len;
    w->output[w->len] = 0;
    idem_http_chunk_free(w->conn, &chunk);
  }
}

/* A turn of the loop. */
static void settle(world *w) {
  if (w->wakes || idem_http_server_deadline(w->http) <= w->now_ms) {
    w->wakes = 0;
    idem_http_server_expire(w->http);
  }
  take(w);
  while (!idem_http_conn_finished(w->conn) && idem_http_conn_deadline(w->conn) <= w->now_ms) {
    idem_http_conn_expire(w->conn);
    take(w);
  }
}

static void feed(world *w, const char *text) {
  idem_http_conn_feed(w->conn, text, strlen(text));
  settle(w);
}

static void post(world *w, const char *path, const char *headers, const char *body) {
  char text[4096];
  snprintf(text, sizeof text,
           "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n%s\r\n%s",
           path, strlen(body), headers, body);
  feed(w, text);
}

static void expect(const world *w, const char *text) {
  if (!strstr(w->output, text)) fail_msg("no %s in:\n%s", text, w->output);
}

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"                     \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define CALL                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"one\"," META "}" \
  "}"
#define CALL_HEADERS                                                                               \
  "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: one\r\n"
#define INITIALIZE                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"                           \
  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"                                        \
  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"

static void one_server_has_routes_json_rpc_and_mcp(void **state) {
  (void)state;
  world w;
  assert_int_equal(open_world(&w, NULL, false), IDEM_OK);
  feed(&w, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect(&w, "\r\n\r\nhello");
  post(&w, "/rpc", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}");
  expect(&w, "\"id\":1,\"result\":[1]}");
  post(&w, "/mcp", CALL_HEADERS, CALL);
  expect(&w, "\"text\":\"called\"");
  assert_null(strstr(w.output, "\r\nDate: "));
  idem_http_server_set_date(w.http, 0);
  feed(&w, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  expect(&w, "403 Forbidden\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n");
  close_world(&w);
}

/* The header line of the session that was opened. */
static void open_session(world *w, char *line, size_t size) {
  post(w, "/mcp", "", INITIALIZE);
  const char *at = strstr(w->output, "Mcp-Session-Id: ");
  assert_non_null(at);
  snprintf(line, size, "%.*s", (int)(strcspn(at, "\n") + 1), at);
  post(w, "/mcp", line, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  expect(w, "202 Accepted");
}

static void news_reach_a_stream(bool wakes) {
  world w;
  char session[128], text[512];
  assert_int_equal(open_world(&w, NULL, wakes), IDEM_OK);
  open_session(&w, session, sizeof session);
  snprintf(text, sizeof text,
           "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n%s\r\n", session);
  feed(&w, text);
  expect(&w, "text/event-stream");
  assert_int_equal(idem_server_add_tool(w.server, &other, NULL, 0), IDEM_OK);
  assert_int_equal(w.wakes, wakes ? 1 : 0);
  assert_int_equal(idem_http_server_deadline(w.http), 0);
  settle(&w);
  expect(&w, "notifications/tools/list_changed");
  close_world(&w);
}

static void news_are_told_in_the_next_turn_for_which_a_loop_may_be_woken(void **state) {
  (void)state;
  news_reach_a_stream(false);
  news_reach_a_stream(true);
}

static void sessions_end_in_their_time(void **state) {
  (void)state;
  world w;
  char session[128];
  assert_int_equal(open_world(&w, NULL, false), IDEM_OK);
  open_session(&w, session, sizeof session);
  w.now_ms += 61000;
  settle(&w);
  assert_int_equal(connect_to(&w), IDEM_OK);
  post(&w, "/mcp", session, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}");
  expect(&w, "404 Not Found");
  close_world(&w);
}

static void what_is_no_server_is_refused(void **state) {
  (void)state;
  static const char *const hosts[] = {"a b", NULL};
  static const idem_http_route route = {.path = "nowhere", .serve = hello};
  const idem_http_opts bad_hosts = {.allow_hosts = hosts};
  const idem_http_opts bad_route = {.routes = &route, .route_count = 1, .rate_count = 1};
  world w;
  idem_http_server *server;
  idem_http_conn *conn;
  assert_int_equal(open_world(&w, NULL, false), IDEM_OK);
  idem_http_server_opts opts = {.now_ns = NULL};
  assert_int_equal(idem_http_server_new(&opts, &server), IDEM_E_INVAL);
  opts.now_ns = now_ns;
  opts.clock_ctx = &w;
  opts.http = &bad_hosts;
  assert_int_equal(idem_http_server_new(&opts, &server), IDEM_E_INVAL);
  opts.http = &bad_route;
  assert_int_equal(idem_http_server_new(&opts, &server), IDEM_E_INVAL);
  assert_null(server);
  assert_int_equal(idem_http_server_add_router(w.http, "/mcp", w.router, NULL), IDEM_E_INVAL);
  idem_http_conn_opts elsewhere = {.address = "somewhere"};
  assert_int_equal(idem_http_conn_new(w.http, &elsewhere, &conn), IDEM_E_INVAL);
  assert_null(conn);
  close_world(&w);
}

static void a_conn_ends_in_order(void **state) {
  (void)state;
  world w;
  assert_int_equal(open_world(&w, NULL, false), IDEM_OK);
  assert_true(idem_http_conn_want_read(w.conn));
  idem_http_conn_close(w.conn);
  assert_false(idem_http_conn_closing(w.conn)); /* a request may be on its way */
  w.now_ms += 1000;
  settle(&w);
  assert_true(idem_http_conn_closing(w.conn));
  assert_false(idem_http_conn_finished(w.conn));
  idem_http_conn_feed_eof(w.conn);
  assert_true(idem_http_conn_finished(w.conn));
  assert_int_equal(connect_to(&w), IDEM_OK);
  w.now_ms += 10000; /* first_ms */
  settle(&w);
  assert_true(idem_http_conn_closing(w.conn));
  close_world(&w);
}

static void chunks_may_be_freed_after_the_server(void **state) {
  (void)state;
  world w;
  idem_http_chunk chunk;
  assert_int_equal(open_world(&w, NULL, false), IDEM_OK);
  idem_http_conn_feed(w.conn, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", 40);
  assert_true(idem_http_conn_next_chunk(w.conn, &chunk));
  close_world(&w);
  assert_memory_equal(chunk.data, "HTTP/1.1 200 OK\r\n", 17);
  idem_http_chunk_free(NULL, &chunk);
}

static void play_once(fault_alloc *fault, void *user) {
  world w;
  (void)user;
  if (open_world(&w, &fault->alloc, true) == IDEM_OK) {
    post(&w, "/rpc", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}");
    post(&w, "/mcp", "", INITIALIZE);
  }
  close_world(&w);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(play_once, NULL, 1000) > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_server_has_routes_json_rpc_and_mcp),
      cmocka_unit_test(news_are_told_in_the_next_turn_for_which_a_loop_may_be_woken),
      cmocka_unit_test(sessions_end_in_their_time),
      cmocka_unit_test(what_is_no_server_is_refused),
      cmocka_unit_test(a_conn_ends_in_order),
      cmocka_unit_test(chunks_may_be_freed_after_the_server),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
