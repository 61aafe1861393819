/* test_away.c - what happened at other processes while a process heard nothing of its store: it learns of it when the store is back. */
#include "kept_call.h"
#include "support/unit.h"

#include "mcp_server/server.h"

#include <stdlib.h>
#include <string.h>

#define URI "x:1"
#define SUBSCRIBE                                                                                  \
  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"" URI    \
  "\"}}"
#define SLOW                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}"
#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2024-11-05\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define LISTEN                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"                 \
  "\"notifications\":{\"resourceSubscriptions\":[\"y:1\",\"" URI "\"]},\"_meta\":{"                \
  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                    \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
#define UPDATED "notifications/resources/updated"
#define COMMENT_MS 15000u

typedef struct world {
  idem__store *store;
  mcp_web one, other; /* the store answers `one` later, and sometimes tells it nothing */
  char session[64];
  mcp_web_conn stream; /* of the session, at `one` */
} world;

static void open_world(world *in) {
  static const later_store_opts later = {.seed = 4};
  in->store = mcp_web_store();
  mcp_web_open(&in->one, &(mcp_web_opts){.store = in->store, .later = &later});
  mcp_web_open(&in->other, &(mcp_web_opts){.store = in->store});
  assert_int_equal(idem__server_name_store(in->one.own.server, "shared"), IDEM_OK);
  assert_int_equal(idem__server_name_store(in->other.own.server, "shared"), IDEM_OK);
  in->other.fixture->drawn = 100; /* ids of its own */
  mcp_web_hello(&in->one, "", in->session);
  free(mcp_web_ask(&in->one, "POST", "/mcp", in->session, INITIALIZED));
  mcp_web_expect(mcp_web_ask(&in->one, "POST", "/mcp", in->session, SUBSCRIBE), "\"result\"");
  mcp_web_connect(&in->one, &in->stream);
  mcp_web_send(&in->stream, "GET", "/mcp", in->session, NULL);
  assert_non_null(strstr(in->stream.output, "text/event-stream"));
  mcp_web_deliver(&in->other);
}

static void close_world(world *in) {
  mcp_web_disconnect(&in->stream);
  mcp_web_close(&in->other);
  mcp_web_close(&in->one);
  idem__store_unref(in->store);
}

static void unwatch(const world *in, idem__store_watcher **watcher) {
  idem__store_unwatch(in->store, *watcher);
  *watcher = NULL;
}

/* Of sessions and news nothing is told to `one` any more. */
static void cut(const world *in) {
  unwatch(in, &in->one.table->watcher);
  unwatch(in, &in->one.table->carried);
  unwatch(in, &in->one.own.server->news);
}

/* Its store was away, and is there again. */
static void come_back(world *in) {
  static const idem__store_change away = {
      .event = IDEM__STORE_WAS_AWAY, .space = IDEM__STORE_KEYS, .name = ""};
  idem__identity_on_change(&away, in->one.own.server);
  mcp_web_settle(&in->stream);
}

static void delete_there(world *in) {
  mcp_web_expect(mcp_web_ask(&in->other, "DELETE", "/mcp", in->session, NULL), " 204 ");
}

static void a_session_that_was_ended_meanwhile_ends(void **state) {
  world in;
  kept_call call = {0};
  mcp_web_conn asks;
  (void)state;
  open_world(&in);
  kept_call_at(&in.one, &call);
  mcp_web_connect(&in.one, &asks);
  mcp_web_send(&asks, "POST", "/mcp", in.session, SLOW);
  assert_non_null(call.request);
  cut(&in);
  delete_there(&in);
  mcp_web_settle(&in.stream);
  assert_int_equal(idem__session_table_sessions(in.one.table), 1);
  come_back(&in);
  mcp_web_settle(&asks);
  assert_int_equal(idem__session_table_sessions(in.one.table), 0);
  assert_true(idem_list_empty(&in.one.endpoint->streams));
  assert_int_equal(call.cancelled, 1);
  assert_int_equal(mcp_web_times(&asks, "\"id\":7"), 1);
  assert_int_equal(mcp_web_times(&asks, "outcome-unknown"), 1);
  mcp_web_disconnect(&asks);
  close_world(&in);
}

static void a_cancellation_that_was_sent_meanwhile_arrives(void **state) {
  (void)state;
  for (int hears = 0; hears < 2; hears++) {
    world in;
    kept_call call = {0};
    mcp_web_conn asks;
    open_world(&in);
    kept_call_at(&in.one, &call);
    mcp_web_connect(&in.one, &asks);
    mcp_web_send(&asks, "POST", "/mcp", in.session, SLOW);
    if (!hears) cut(&in);
    mcp_web_expect(mcp_web_ask(&in.other, "POST", "/mcp", in.session,
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                               "\"params\":{\"requestId\":7}}"),
                   "202");
    mcp_web_settle(&asks);
    assert_int_equal(call.cancelled, hears);
    come_back(&in);
    mcp_web_settle(&asks);
    assert_int_equal(call.cancelled, 1);
    assert_int_equal(mcp_web_times(&asks, "\"id\":7"), 0);
    mcp_web_disconnect(&asks);
    close_world(&in);
  }
}

/* Nobody noticed that something was not told. */
static void a_stream_of_a_session_that_is_gone_ends_when_it_is_looked_at(void **state) {
  world in;
  (void)state;
  open_world(&in);
  cut(&in);
  delete_there(&in);
  mcp_web_settle(&in.stream);
  assert_false(idem_list_empty(&in.one.endpoint->streams));
  in.one.now_ms += COMMENT_MS;
  mcp_web_settle(&in.stream);
  assert_true(idem_list_empty(&in.one.endpoint->streams));
  assert_int_equal(idem__session_table_sessions(in.one.table), 0);
  close_world(&in);
}

static void open_listener(world *in, mcp_web_conn *conn) {
  mcp_web_connect(&in->one, conn);
  mcp_web_send(conn, "POST", "/mcp", MODERN, LISTEN);
  assert_non_null(strstr(conn->output, "acknowledged"));
}

/* A peer of 2024-11-05, which is told as one on a line is. */
static void open_line(world *in, mcp_web_conn *conn) {
  char target[128];
  mcp_web_connect(&in->one, conn);
  mcp_web_open_sse(conn, "", target);
  free(mcp_web_ask(&in->one, "POST", target, "", HELLO));
  free(mcp_web_ask(&in->one, "POST", target, "", INITIALIZED));
  free(mcp_web_ask(&in->one, "POST", target, "", SUBSCRIBE));
  mcp_web_settle(conn);
}

static void expect_told(world *in, mcp_web_conn *line, mcp_web_conn *listener, size_t times) {
  mcp_web_settle(&in->stream);
  mcp_web_settle(line);
  mcp_web_settle(listener);
  assert_int_equal(mcp_web_times(&in->stream, UPDATED), times);
  assert_int_equal(mcp_web_times(line, UPDATED), times);
  assert_int_equal(mcp_web_times(listener, "{\"uri\":\"" URI "\""), times);
}

static void resources_that_changed_meanwhile_are_told(void **state) {
  world in;
  mcp_web_conn line, listener;
  (void)state;
  open_world(&in);
  open_line(&in, &line);
  open_listener(&in, &listener);
  idem_server_resource_updated(in.other.own.server, URI);
  mcp_web_deliver(&in.other);
  expect_told(&in, &line, &listener, 1);
  cut(&in);
  idem_server_resource_updated(in.other.own.server, URI);
  mcp_web_deliver(&in.other);
  expect_told(&in, &line, &listener, 1);
  come_back(&in);
  expect_told(&in, &line, &listener, 2);
  assert_int_equal(mcp_web_times(&listener, UPDATED), 3); /* the other one, too */
  assert_int_equal(mcp_web_times(&in.stream, "list_changed"), 0);
  for (int i = 0; i < 20; i++) { /* renewals, of which some look at the nodes */
    in.one.now_ms += 2500;
    mcp_web_settle(&in.stream);
  }
  expect_told(&in, &line, &listener, 2);
  mcp_web_disconnect(&listener);
  mcp_web_disconnect(&line);
  close_world(&in);
}

/* Lists stand in the nodes' records, which are looked at. */
static void lists_that_changed_meanwhile_are_told(void **state) {
  world in;
  (void)state;
  open_world(&in);
  unwatch(&in, &in.one.own.server->node_changes);
  assert_int_equal(idem_server_remove_tool(in.other.own.server, "echo"), IDEM_OK);
  mcp_web_deliver(&in.other);
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "tools/list_changed"), 0);
  come_back(&in);
  assert_int_equal(mcp_web_times(&in.stream, "tools/list_changed"), 1);
  close_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_that_was_ended_meanwhile_ends),
      cmocka_unit_test(a_cancellation_that_was_sent_meanwhile_arrives),
      cmocka_unit_test(a_stream_of_a_session_that_is_gone_ends_when_it_is_looked_at),
      cmocka_unit_test(resources_that_changed_meanwhile_are_told),
      cmocka_unit_test(lists_that_changed_meanwhile_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
