/* test_unfinished.c - halves of bodies and of WebSocket messages, and what is sent behind a request, are bounded
 * together: who has been at it for longest gives way, and whoever just sends is served. */
#include "support/mcp_web.h"
#include "support/unit.h"
#include "support/ws_frame.h"

#include <stdio.h>
#include <stdlib.h>

enum { HALF = 100000, BOUND = 300000, PEERS = 6 };

static const idem_http_opts bounded = {.unfinished_bytes = BOUND};

static void feed(mcp_web_conn *conn, const char *bytes, size_t len) {
  assert_int_equal(idem__http_conn_feed(conn->conn, bytes, len, conn->web->now_ms), IDEM_OK);
}

/* A body of which half comes. */
static void post_half(mcp_web_conn *conn) {
  char head[256];
  char *body = malloc(HALF);
  assert_non_null(body);
  memset(body, ' ', HALF);
  int len = snprintf(head, sizeof head,
                     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n",
                     2 * HALF);
  feed(conn, head, (size_t)len);
  feed(conn, body, HALF);
  free(body);
}

static void send_half(mcp_web_conn *conn) {
  char *text = malloc(HALF), *bytes = malloc(HALF + 16);
  assert_true(text && bytes);
  memset(text, ' ', HALF);
  feed(conn, bytes, frame(bytes, TEXT, text, HALF, true));
  free(text);
  free(bytes);
}

static size_t refused(mcp_web_conn *conns, const char *sign) {
  size_t count = 0;
  for (size_t i = 0; i < PEERS; i++) {
    mcp_web_settle(&conns[i]);
    bool gone = memmem(conns[i].output, conns[i].len, sign, strlen(sign)) != NULL;
    if (gone && count < i) fail_msg("%zu gave way before one that was there first", i);
    count += gone;
  }
  return count;
}

static void close_all(mcp_web *web, mcp_web_conn *conns) {
  for (size_t i = 0; i < PEERS; i++) mcp_web_disconnect(&conns[i]);
  mcp_web_close(web);
}

static void who_sent_half_a_body_first_gives_way(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn conns[PEERS];
  mcp_web_open(&web, &(mcp_web_opts){.http = &bounded});
  for (size_t i = 0; i < PEERS; i++) {
    mcp_web_connect(&web, &conns[i]);
    post_half(&conns[i]);
  }
  assert_in_range(refused(conns, "HTTP/1.1 503 "), PEERS - BOUND / HALF, PEERS - 1);
  assert_non_null(strstr(conns[0].output, "\"reason\":\"unavailable\""));
  char *answer =
      mcp_web_ask(&web, "POST", "/mcp", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  assert_null(strstr(answer, " 503 "));
  free(answer);
  close_all(&web, conns);
}

static void so_does_who_sent_half_a_websocket_message(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn conns[PEERS];
  mcp_web_open(&web, &(mcp_web_opts){.http = &bounded});
  for (size_t i = 0; i < PEERS; i++) {
    mcp_web_connect(&web, &conns[i]);
    mcp_web_upgrade(&conns[i], "");
    send_half(&conns[i]);
  }
  assert_in_range(refused(conns, "\x88\x18\x03\xf5too much is unfinished"), PEERS - BOUND / HALF,
                  PEERS - 1);
  close_all(&web, conns);
}

static void keep(idem_request *request, void *user) {
  idem_request ***next = user;
  *(*next)++ = request;
  idem_request_keep(request);
}

static void send_behind_a_call(mcp_web_conn *conn, const char *bytes) {
  mcp_web_send(
      conn, "POST", "/mcp",
      "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\","
      "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
  feed(conn, bytes, HALF);
}

/* It still gets its answer, and as its last: what waits behind it is forgotten, and so is what comes later. */
static void so_does_who_sent_much_behind_a_request(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn conns[PEERS];
  idem_request *kept[PEERS], **next = kept;
  char *bytes = malloc(HALF);
  assert_non_null(bytes);
  memset(bytes, '\n', HALF);
  mcp_web_open(&web, &(mcp_web_opts){.http = &bounded});
  web.fixture->keep = keep;
  web.fixture->user = &next;
  for (size_t i = 0; i < PEERS; i++) {
    mcp_web_connect(&web, &conns[i]);
    send_behind_a_call(&conns[i], bytes);
  }
  assert_int_equal(next - kept, PEERS);
  feed(&conns[0], bytes, HALF);
  for (size_t i = 0; i < PEERS; i++) idem_reply_json(kept[i], "{\"content\":[]}", 14);
  assert_in_range(refused(conns, "Connection: close"), PEERS - BOUND / HALF, PEERS - 1);
  assert_int_equal(refused(conns, "HTTP/1.1 200 "), PEERS);
  close_all(&web, conns);
  free(bytes);
}

/* What has come to its end, or whose connection has, is counted no more. */
static void what_has_ended_makes_room(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn conns[PEERS];
  char *rest = malloc(HALF);
  assert_non_null(rest);
  memset(rest, ' ', HALF);
  mcp_web_open(&web, &(mcp_web_opts){.http = &bounded});
  for (size_t i = 0; i < PEERS; i++) {
    mcp_web_connect(&web, &conns[i]);
    post_half(&conns[i]);
    if (i % 2) {
      feed(&conns[i], rest, HALF);
    } else {
      mcp_web_disconnect(&conns[i]);
      mcp_web_connect(&web, &conns[i]);
    }
  }
  assert_int_equal(refused(conns, "HTTP/1.1 503 "), 0);
  close_all(&web, conns);
  free(rest);
}

static void a_message_alone_may_be_larger_than_the_bound(void **state) {
  (void)state;
  static const idem_http_opts tiny = {.unfinished_bytes = 1};
  mcp_web web;
  mcp_web_conn conn;
  mcp_web_open(&web, &(mcp_web_opts){.http = &tiny});
  mcp_web_connect(&web, &conn);
  post_half(&conn);
  mcp_web_settle(&conn);
  assert_string_equal(conn.output, "");
  mcp_web_disconnect(&conn);
  mcp_web_close(&web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_sent_half_a_body_first_gives_way),
      cmocka_unit_test(so_does_who_sent_half_a_websocket_message),
      cmocka_unit_test(so_does_who_sent_much_behind_a_request),
      cmocka_unit_test(what_has_ended_makes_room),
      cmocka_unit_test(a_message_alone_may_be_larger_than_the_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
