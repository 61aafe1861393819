/* test_stays.c - what was opened with a token ends with it: listening, event streams of sessions and of POSTs, WebSockets, and the streams
 * of 2024-11-05. Each ends as its protocol has it, so that its client can come back with another token and finds its session. */
#include "kept_call.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define OLD "Authorization: Bearer alice 100\r\n"
#define NEW "Authorization: Bearer alice 900\r\n"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\n"
#define LISTEN                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"subscriptions/listen\",\"params\":{"             \
  "\"notifications\":{\"toolsListChanged\":true}," META "}}"
#define LAST_CHUNK "\r\n0\r\n\r\n"

/* A judge with a clock of the test's: "NAME END" is a token. */
typedef struct world {
  mcp_web web;
  mcp_web_conn conn;
  idem_list stays;
  uint64_t now_s;
  size_t begun, ended;
  idem__grant *last; /* that was lent to a verdict */
  kept_call call;
} world;

static void judge(const idem_http_caller *caller, idem__http_judgment *verdict, void *user) {
  world *w = user;
  char text[64], name[32];
  unsigned long long ends_s;
  idem__view shown = idem__http_caller_authorization(caller);
  snprintf(text, sizeof text, "%.*s", (int)shown.len, shown.at ? shown.at : "");
  *verdict = (idem__http_judgment){.status = 401};
  if (sscanf(text, "Bearer %31s %llu", name, &ends_s) != 2 || ends_s <= w->now_s) return;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__grant_unref(w->last);
  w->last = idem__grant_new(&alloc, name, "", yyjson_read("{}", 2, 0), ends_s);
  assert_non_null(w->last);
  *verdict = (idem__http_judgment){.principal = w->last->principal, .grant = w->last};
}

static void stays(idem__http_stay *stay, bool begins, void *user) {
  world *w = user;
  if (begins) {
    w->begun++;
    idem_list_append(&w->stays, &stay->link);
  } else {
    w->ended++;
    idem_list_remove(&stay->link);
  }
}

static void time_passes(world *w, uint64_t now_s) {
  w->now_s = now_s;
  for (idem_list *at = w->stays.next, *next; at != &w->stays; at = next) {
    idem__http_stay *stay = IDEM_CONTAINER(at, idem__http_stay, link);
    next = at->next;
    if (stay->grant->ends_s <= now_s) idem__http_stay_over(stay, w->web.now_ms);
  }
}

static void open_world(world *w) {
  *w = (world){.now_s = 1};
  idem_list_init(&w->stays);
  mcp_web_open(&w->web, &(mcp_web_opts){.judge = judge, .stays = stays, .judge_user = w});
  w->web.fixture->wall_ms = 1000;
  kept_call_at(&w->web, &w->call);
  mcp_web_connect(&w->web, &w->conn);
}

static void close_world(world *w) {
  mcp_web_disconnect(&w->conn);
  if (w->call.request) idem_tool_text(w->call.request, "x", 1);
  assert_int_equal(w->begun, w->ended);
  assert_true(idem_list_empty(&w->stays));
  idem__grant_unref(w->last);
  mcp_web_close(&w->web);
}

static void expect(const char *output, const char *text) {
  if (!strstr(output, text)) fail_msg("no %s in:\n%s", text, output);
}

static bool ends_with(const char *output, const char *text) {
  size_t len = strlen(output), end = strlen(text);
  return len >= end && strcmp(output + len - end, text) == 0;
}

/* ------------------------------------------------------------------ tests */

static void what_is_answered_at_once_does_not_stay(void **state) {
  (void)state;
  world w;
  char session[64];
  open_world(&w);
  mcp_web_hello(&w.web, OLD, session);
  assert_int_equal(w.begun, 0);
  close_world(&w);
}

static void listening_ends_with_its_result(void **state) {
  (void)state;
  world w;
  open_world(&w);
  mcp_web_send(&w.conn, "POST", "/mcp", OLD MODERN "Mcp-Method: subscriptions/listen\r\n", LISTEN);
  expect(w.conn.output, "subscriptions/acknowledged");
  assert_int_equal(w.begun, 1);
  time_passes(&w, 99);
  mcp_web_settle(&w.conn);
  assert_null(strstr(w.conn.output, "\"result\""));
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  expect(w.conn.output, "\"id\":\"l\",\"result\":{\"resultType\":\"complete\"");
  assert_true(ends_with(w.conn.output, LAST_CHUNK));
  /* It listens again on the same connection, by another token alone. */
  mcp_web_send(&w.conn, "POST", "/mcp", OLD MODERN "Mcp-Method: subscriptions/listen\r\n", LISTEN);
  expect(w.conn.output, "401 Unauthorized");
  mcp_web_send(&w.conn, "POST", "/mcp", NEW MODERN "Mcp-Method: subscriptions/listen\r\n", LISTEN);
  assert_int_equal(w.begun, 2);
  assert_int_equal(w.ended, 1);
  close_world(&w);
}

static void a_call_on_a_stream_that_cannot_be_taken_up_again_is_refused(void **state) {
  (void)state;
  world w;
  open_world(&w);
  mcp_web_send(&w.conn, "POST", "/mcp", OLD MODERN "Mcp-Method: tools/call\r\nMcp-Name: slow\r\n",
               "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"slow\",\"arguments\":{}," META "}}");
  assert_int_equal(w.begun, 0); /* it may be answered yet */
  w.web.now_ms += 20000;
  mcp_web_settle(&w.conn);
  expect(w.conn.output, "text/event-stream");
  assert_int_equal(w.begun, 1);
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  expect(w.conn.output, "\"id\":7,\"error\":{\"code\":-32600");
  expect(w.conn.output, "\"reason\":\"unauthorized\"");
  assert_true(ends_with(w.conn.output, LAST_CHUNK));
  assert_int_equal(w.call.cancelled, 1);
  close_world(&w);
}

static void the_stream_of_a_session_ends_and_the_session_stays(void **state) {
  (void)state;
  world w;
  char session[64], headers[160];
  open_world(&w);
  mcp_web_hello(&w.web, OLD, session);
  snprintf(headers, sizeof headers, OLD "%s", session);
  mcp_web_send(&w.conn, "GET", "/mcp", headers, NULL);
  assert_int_equal(w.begun, 1);
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  assert_true(ends_with(w.conn.output, LAST_CHUNK));
  size_t before = w.conn.len;
  snprintf(headers, sizeof headers, NEW "%s", session);
  mcp_web_send(&w.conn, "GET", "/mcp", headers, NULL);
  expect(w.conn.output + before, "200 OK");
  close_world(&w);
}

static void a_call_of_a_session_is_taken_up_again_with_another_token(void **state) {
  (void)state;
  world w;
  char session[64], headers[200];
  open_world(&w);
  mcp_web_hello(&w.web, OLD, session);
  snprintf(headers, sizeof headers, OLD "%s", session);
  mcp_web_send(&w.conn, "POST", "/mcp", headers,
               "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"slow\",\"arguments\":{}}}");
  w.web.now_ms += 20000;
  mcp_web_settle(&w.conn);
  const char *id = strstr(w.conn.output, "id: ");
  assert_non_null(id);
  char last[64];
  snprintf(last, sizeof last, "%.*s", (int)strcspn(id + 4, "\n"), id + 4);
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  assert_true(ends_with(w.conn.output, LAST_CHUNK));
  assert_null(strstr(w.conn.output, "\"id\":8"));
  assert_int_equal(w.call.cancelled, 0);
  assert_non_null(w.call.request);
  idem_tool_text(w.call.request, "done", 4);
  w.call.request = NULL;
  mcp_web_deliver(&w.web);
  snprintf(headers, sizeof headers, NEW "%sLast-Event-ID: %s\r\n", session, last);
  mcp_web_send(&w.conn, "GET", "/mcp", headers, NULL);
  expect(w.conn.output, "\"id\":8,\"result\"");
  close_world(&w);
}

static void a_websocket_is_closed_for_want_of_a_token(void **state) {
  (void)state;
  static const char close[] = "\x88\x15\x03\xf0the token has ended";
  world w;
  open_world(&w);
  mcp_web_upgrade(&w.conn, OLD);
  assert_int_equal(w.begun, 1);
  mcp_web_send_text(&w.conn, LISTEN);
  mcp_web_send_text(&w.conn,
                    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":"
                    "\"slow\",\"arguments\":{}," META "}}");
  assert_non_null(w.call.request);
  w.conn.len = 0;
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  const char *output = w.conn.output;
  bool listened = false, refused = false, closed = false;
  for (size_t i = 0; i < w.conn.len; i++) {
    const char *at = output + i;
    size_t left = w.conn.len - i;
    listened |= left > 20 && memcmp(at, "\"id\":\"l\",\"result\":", 18) == 0;
    refused |= left > 20 && memcmp(at, "\"id\":9,\"error\":", 15) == 0;
    closed |= left == sizeof close - 1 && memcmp(at, close, left) == 0;
  }
  assert_true(listened && refused && closed);
  assert_int_equal(w.call.cancelled, 1);
  close_world(&w);
}

static void a_stream_of_2024_lasts_as_long_as_the_last_token_shown(void **state) {
  (void)state;
  world w;
  char target[128];
  open_world(&w);
  mcp_web_open_sse(&w.conn, OLD, target);
  char *answer = mcp_web_ask(&w.web, "POST", target, NEW,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  expect(answer, "202 Accepted");
  free(answer);
  time_passes(&w, 100);
  mcp_web_settle(&w.conn);
  assert_false(ends_with(w.conn.output, LAST_CHUNK));
  time_passes(&w, 900);
  mcp_web_settle(&w.conn);
  assert_true(ends_with(w.conn.output, LAST_CHUNK));
  close_world(&w);
}

static void whoever_goes_first_the_judge_hears_of_it_once(void **state) {
  (void)state;
  for (int way = 0; way < 3; way++) {
    world w;
    open_world(&w);
    mcp_web_send(&w.conn, "POST", "/mcp", OLD MODERN "Mcp-Method: subscriptions/listen\r\n",
                 LISTEN);
    if (way == 0) {
      assert_int_equal(idem__http_conn_feed_eof(w.conn.conn, w.web.now_ms), IDEM_OK);
    } else if (way == 1) {
      idem__http_conn_abort(w.conn.conn, w.web.now_ms);
    }
    mcp_web_deliver(&w.web);
    time_passes(&w, way == 2 ? 1 : 100);
    close_world(&w);
    assert_int_equal(w.ended, 1);
  }
}

/* ----------------------------------------------------------------- no memory */

static void serve_stream(idem_http_exchange *exchange, const idem_http_request *request,
                         void *user) {
  (void)request, (void)user;
  idem__http_stream_begin(exchange, 200, "text/event-stream", NULL);
}

static void stay_once(fault_alloc *fault, void *user) {
  static const char text[] =
      "GET /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice 100\r\n\r\n";
  static const idem_http_route route = {
      .path = "/x", .methods = IDEM_HTTP_GET, .serve = serve_stream};
  world w = {.now_s = 1};
  idem__http_server_opts opts = {.judge = judge, .stays = stays, .judge_user = &w};
  idem_http_server *server;
  idem_http_conn *conn;
  (void)user;
  idem_list_init(&w.stays);
  opts.loopback = true;
  opts.alloc = &fault->alloc;
  if (idem__http_server_new(&opts, &server) != IDEM_OK) return;
  if (idem__http_server_add(server, &route, &(idem__http_binding){0}) == IDEM_OK &&
      idem__http_conn_new(&(idem__http_conn_opts){.server = server}, &conn) == IDEM_OK) {
    idem_status status = idem__http_conn_feed(conn, text, sizeof text - 1, 1000);
    /* What could not be ended has not begun. */
    if (status == IDEM_OK) assert_int_equal(w.begun, 1);
    time_passes(&w, 100);
    idem__http_conn_free(conn);
  }
  assert_int_equal(w.begun, w.ended);
  idem__http_server_free(server);
  idem__grant_unref(w.last);
}

static void without_memory_to_end_it_nothing_begins(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(stay_once, NULL, 100) > 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_answered_at_once_does_not_stay),
      cmocka_unit_test(listening_ends_with_its_result),
      cmocka_unit_test(a_call_on_a_stream_that_cannot_be_taken_up_again_is_refused),
      cmocka_unit_test(the_stream_of_a_session_ends_and_the_session_stays),
      cmocka_unit_test(a_call_of_a_session_is_taken_up_again_with_another_token),
      cmocka_unit_test(a_websocket_is_closed_for_want_of_a_token),
      cmocka_unit_test(a_stream_of_2024_lasts_as_long_as_the_last_token_shown),
      cmocka_unit_test(whoever_goes_first_the_judge_hears_of_it_once),
      cmocka_unit_test(without_memory_to_end_it_nothing_begins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
