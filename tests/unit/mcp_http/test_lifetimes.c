/* test_lifetimes.c - what outlives a session or a connection owns what it reads: handlers of
 * 2025-11-25 tasks, and of calls that were given up, look at their client long after it went. */
#include "http/endpoint.h"
#include "kept_call.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-11-25\",\"capabilities\":{\"elicitation\":{\"form\":{},\"url\":{}},"                     \
  "\"sampling\":{},\"roots\":{}},"                                                                 \
  "\"clientInfo\":{\"name\":\"somebody\",\"version\":\"1\"}}}"
#define CALL(tool, more)                                                                           \
  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool           \
  "\",\"arguments\":{}" more "}}"
#define TASK CALL("job", ",\"task\":{}")

typedef struct world {
  mcp_web web;
  mcp_web_conn line; /* a WebSocket, a stream, or the POST that waits */
  kept_call call;
  char session[64], target[128];
} world;

static void open_world(world *w, const mcp_web_opts *opts) {
  *w = (world){.call = {.goes_on = true}};
  mcp_web_open(&w->web, opts);
  kept_call_at(&w->web, &w->call);
}

/* A session of 2025-11-25 at /mcp whose client can be asked anything. */
static void shake_hands(world *w, char line[64]) {
  mcp_web_session(mcp_web_ask(&w->web, "POST", "/mcp", "", HELLO), line);
}

/* The handler looks at everything it can know of who asked. */
static void look(idem_request *request) {
  assert_string_equal(yyjson_get_str(yyjson_obj_get(idem_peer_info(request), "name")), "somebody");
  assert_true(yyjson_is_obj(yyjson_obj_get(idem_peer_capabilities(request), "sampling")));
  assert_true(idem_can_ask(request, IDEM_ASK_SAMPLING));
  assert_true(idem_can_ask(request, IDEM_ASK_FORM));
  assert_int_equal(idem_request_revision(request), IDEM_MCP_2025_11_25);
  idem_progress(request, 1, 2, "on");
  idem_mcp_log(request, IDEM_MCP_ERROR, "l", "still there");
  idem_task_status(request, "still there");
}

/* ... and then asks, and is answered by nobody, and answers. */
static void look_and_end(world *w) {
  assert_non_null(w->call.request);
  look(w->call.request);
  idem_ask ask = {.key = "r", .kind = IDEM_ASK_ROOTS};
  idem_needs_input(w->call.request, &ask, 1, "s", 1);
  mcp_web_deliver(&w->web);
}

/* --------------------------------------------------------------------- tasks */

static void start_task(world *w) {
  shake_hands(w, w->session);
  free(mcp_web_ask(&w->web, "POST", "/mcp", w->session, TASK));
  assert_non_null(w->call.request);
}

static void a_task_knows_its_client_after_delete(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  start_task(&w);
  free(mcp_web_ask(&w.web, "DELETE", "/mcp", w.session, NULL));
  assert_int_equal(idem__session_table_sessions(w.web.table), 0);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

static void a_task_knows_its_client_after_its_session_expired(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.table = {.session_idle_ms = 1000}});
  start_task(&w);
  w.web.now_ms += 1000000;
  char other[64];
  shake_hands(&w, other); /* somebody comes, and the store looks at its clock */
  assert_int_equal(idem__session_table_sessions(w.web.table), 1);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

static void a_task_knows_its_client_after_its_session_was_evicted(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.table = {.max_sessions = 1}});
  start_task(&w);
  char other[64];
  shake_hands(&w, other);
  assert_int_equal(idem__session_table_sessions(w.web.table), 1);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

static void a_task_knows_its_client_after_its_stream_closed(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  mcp_web_connect(&w.web, &w.line);
  mcp_web_open_sse(&w.line, "", w.target);
  free(mcp_web_ask(&w.web, "POST", w.target, "", HELLO));
  free(mcp_web_ask(&w.web, "POST", w.target, "", TASK));
  mcp_web_disconnect(&w.line);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

static void open_websocket(world *w) {
  mcp_web_connect(&w->web, &w->line);
  mcp_web_upgrade(&w->line, "");
  mcp_web_send_text(&w->line, HELLO);
}

static void a_task_knows_its_client_after_its_websocket_closed(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  open_websocket(&w);
  mcp_web_send_text(&w.line, TASK);
  mcp_web_disconnect(&w.line);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

static void a_task_knows_its_client_after_its_line_closed(void **state) {
  (void)state;
  world w;
  idem_conn *conn;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  assert_int_equal(idem_server_accept(w.web.fixture->server, &(idem_conn_opts){0}, &conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, HELLO "\n", sizeof HELLO), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, TASK "\n", sizeof TASK), IDEM_OK);
  mcp_web_deliver(&w.web);
  idem_conn_free(conn);
  look_and_end(&w);
  mcp_web_close(&w.web);
}

/* ------------------------------------------------------------- calls given up */

/* A handler that goes on after its call was cancelled still knows who asked. */
static void a_cancelled_call_knows_its_client(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  open_websocket(&w);
  mcp_web_send_text(&w.line, CALL("slow", ""));
  assert_non_null(w.call.request);
  mcp_web_disconnect(&w.line);
  look(w.call.request);
  assert_int_equal(idem_tool_text(w.call.request, "late", 4), IDEM_E_CLOSED);
  mcp_web_close(&w.web);
}

/* The same where the wire is done with it first, and the session goes afterwards. */
static void a_call_cancelled_by_message_knows_its_client(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.store = NULL});
  shake_hands(&w, w.session);
  mcp_web_connect(&w.web, &w.line);
  mcp_web_send(&w.line, "POST", "/mcp", w.session, CALL("slow", ""));
  assert_non_null(w.call.request);
  free(mcp_web_ask(&w.web, "POST", "/mcp", w.session,
                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                   "\"requestId\":2}}"));
  mcp_web_settle(&w.line);
  free(mcp_web_ask(&w.web, "DELETE", "/mcp", w.session, NULL));
  mcp_web_disconnect(&w.line);
  look(w.call.request);
  idem_tool_text(w.call.request, "late", 4);
  mcp_web_close(&w.web);
}

/* ------------------------------------------------------- calls that were left */

static size_t detached(const world *w) { return w->web.endpoint->rpc->detached_count; }

static size_t in_flight(const world *w) {
  return idem__router_work(w->web.fixture->server->router);
}

/* A call in a session of its own, kept by its handler or waiting for an answer; its connection stays. */
static void call_tool(world *w, const char *body) {
  w->call.goes_on = false;
  shake_hands(w, w->session);
  mcp_web_connect(&w->web, &w->line);
  mcp_web_send(&w->line, "POST", "/mcp", w->session, body);
  assert_int_equal(in_flight(w), 1);
}

static void call_and_go(world *w, const char *body) {
  call_tool(w, body);
  mcp_web_disconnect(&w->line);
  mcp_web_deliver(&w->web);
  assert_int_equal(detached(w), 1);
}

static void expect_over(world *w) {
  mcp_web_deliver(&w->web);
  assert_int_equal(detached(w), 0);
  assert_int_equal(in_flight(w), 0);
  assert_null(w->call.request);
  mcp_web_close(&w->web);
}

static void delete_ends_calls_without_a_connection(void **state) {
  (void)state;
  static const char *const calls[] = {CALL("slow", ""), CALL("ask", ""), CALL("ask_all", "")};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    world w;
    open_world(&w, &(mcp_web_opts){.store = NULL});
    call_and_go(&w, calls[i]);
    free(mcp_web_ask(&w.web, "DELETE", "/mcp", w.session, NULL));
    expect_over(&w);
  }
}

static void delete_answers_calls_that_are_waited_for(void **state) {
  (void)state;
  static const char *const calls[] = {CALL("slow", ""), CALL("ask", "")};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    world w;
    open_world(&w, &(mcp_web_opts){.store = NULL});
    call_tool(&w, calls[i]);
    free(mcp_web_ask(&w.web, "DELETE", "/mcp", w.session, NULL));
    mcp_web_settle(&w.line);
    const char *answer = strstr(w.line.output, "\"id\":2,");
    assert_non_null(answer); /* an error, or what the handler made of an unanswered question */
    assert_null(strstr(answer + 1, "\"id\":2,"));
    mcp_web_disconnect(&w.line);
    expect_over(&w);
  }
}

/* Time passes for it although no connection looks at the clock. */
static void a_question_left_behind_ends_in_its_time(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.server = {.input_ms = 5000}});
  call_and_go(&w, CALL("ask", ""));
  w.web.now_ms += 4000;
  mcp_web_deliver(&w.web);
  assert_int_equal(detached(&w), 1);
  w.web.now_ms += 2000;
  expect_over(&w);
}

/* Calls do not keep alive the session of a client that has gone, and end with it. */
static void expiry_ends_calls_without_a_connection(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.table = {.session_idle_ms = 60000}});
  call_and_go(&w, CALL("slow", ""));
  w.web.now_ms += 59000;
  mcp_web_deliver(&w.web);
  assert_int_equal(detached(&w), 1);
  w.web.now_ms += 2000;
  mcp_web_deliver(&w.web);
  assert_int_equal(idem__session_table_sessions(w.web.table), 0);
  expect_over(&w);
}

/* While somebody waits for its answer a session does not expire. */
static void a_call_waited_for_keeps_its_session(void **state) {
  (void)state;
  world w;
  open_world(&w, &(mcp_web_opts){.table = {.session_idle_ms = 60000}});
  call_tool(&w, CALL("slow", ""));
  w.web.now_ms += 120000;
  idem__session_table_tend(w.web.table, w.web.now_ms);
  mcp_web_settle(&w.line);
  assert_int_equal(idem__session_table_sessions(w.web.table), 1);
  idem_tool_text(w.call.request, "done", 4);
  w.call.request = NULL;
  mcp_web_settle(&w.line);
  assert_non_null(strstr(w.line.output, "done"));
  mcp_web_disconnect(&w.line);
  expect_over(&w);
}

static void a_session_of_calls_left_behind_makes_room(void **state) {
  (void)state;
  world w;
  char other[64];
  open_world(&w, &(mcp_web_opts){.table = {.max_sessions = 1}});
  call_and_go(&w, CALL("slow", ""));
  shake_hands(&w, other);
  expect_over(&w);
}

/* Without an event stream there is no way to ask: the tool fails, instead of waiting for nobody. */
static void who_takes_no_stream_is_not_asked(void **state) {
  (void)state;
  world w;
  char request[1024];
  open_world(&w, &(mcp_web_opts){.store = NULL});
  shake_hands(&w, w.session);
  mcp_web_connect(&w.web, &w.line);
  int len = snprintf(request, sizeof request,
                     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n%s"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     w.session, sizeof CALL("ask", "") - 1, CALL("ask", ""));
  assert_int_equal(idem__http_conn_feed(w.line.conn, request, (size_t)len, w.web.now_ms), IDEM_OK);
  mcp_web_settle(&w.line);
  assert_non_null(strstr(w.line.output, "\"isError\":true"));
  mcp_web_disconnect(&w.line);
  expect_over(&w);
}

static void say_much(idem_request *request, yyjson_val *arguments, void *user) {
  static char line[1 << 19];
  (void)arguments, (void)user;
  memset(line, 'x', sizeof line - 1);
  for (int i = 0; i < 40; i++) idem_mcp_log(request, IDEM_MCP_ERROR, NULL, line);
  idem_tool_text(request, "said", 4);
}

static void feed_post(mcp_web_conn *to, const char *headers, const char *body) {
  char text[1024];
  int len = snprintf(text, sizeof text,
                     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, "
                     "text/event-stream\r\nContent-Type: application/json\r\n%s"
                     "Content-Length: %zu\r\n\r\n%s",
                     headers, strlen(body), body);
  assert_int_equal(idem__http_conn_feed(to->conn, text, (size_t)len, to->web->now_ms), IDEM_OK);
}

/* The rest of a batch waits while its client reads. By then the request that brought it is another's. */
static void a_batch_that_waits_reads_no_other_request(void **state) {
  (void)state;
  world w;
  mcp_web_conn other;
  char line[64];
  open_world(&w, &(mcp_web_opts){0});
  idem_tool noisy = {.name = "noisy", .fn = say_much};
  assert_int_equal(idem_server_add_tool(w.web.fixture->server, &noisy, NULL, 0), IDEM_OK);
  char *answer = mcp_web_ask(&w.web, "POST", "/mcp", "",
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                             "\"protocolVersion\":\"2025-03-26\",\"capabilities\":{}}}");
  mcp_web_session(answer, line);
  mcp_web_connect(&w.web, &w.line);
  mcp_web_connect(&w.web, &other);
  feed_post(
      &w.line, line,
      "[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"noisy\"}},"
      "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}]");
  feed_post(&other, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ping\r\n", "{");
  mcp_web_settle(&w.line);
  assert_null(strstr(w.line.output, "\"error\":{"));
  assert_non_null(strstr(w.line.output, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}"));
  mcp_web_disconnect(&w.line);
  mcp_web_disconnect(&other);
  mcp_web_close(&w.web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_task_knows_its_client_after_delete),
      cmocka_unit_test(a_task_knows_its_client_after_its_session_expired),
      cmocka_unit_test(a_task_knows_its_client_after_its_session_was_evicted),
      cmocka_unit_test(a_task_knows_its_client_after_its_stream_closed),
      cmocka_unit_test(a_task_knows_its_client_after_its_websocket_closed),
      cmocka_unit_test(a_task_knows_its_client_after_its_line_closed),
      cmocka_unit_test(a_cancelled_call_knows_its_client),
      cmocka_unit_test(a_call_cancelled_by_message_knows_its_client),
      cmocka_unit_test(delete_ends_calls_without_a_connection),
      cmocka_unit_test(delete_answers_calls_that_are_waited_for),
      cmocka_unit_test(a_question_left_behind_ends_in_its_time),
      cmocka_unit_test(expiry_ends_calls_without_a_connection),
      cmocka_unit_test(a_call_waited_for_keeps_its_session),
      cmocka_unit_test(a_session_of_calls_left_behind_makes_room),
      cmocka_unit_test(who_takes_no_stream_is_not_asked),
      cmocka_unit_test(a_batch_that_waits_reads_no_other_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
