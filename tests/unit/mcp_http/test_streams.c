/* test_streams.c - event streams of legacy sessions: what they tell, here and elsewhere, how slowly they are read, and
 * what who lost one finds again. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include "mcp_server/server.h"

#include <stdio.h>
#include <stdlib.h>

#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

/* What is subscribed to on one machine is told on the stream that the other holds open. */
static void a_stream_hears_of_what_was_subscribed_elsewhere(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn stream;
  char session[64];
  mcp_web_pair_open(&both);
  mcp_web_hello(&both.first, "", session);
  mcp_web_connect(&both.first, &stream);
  mcp_web_send(&stream, "GET", "/mcp", session, NULL);
  assert_non_null(strstr(stream.output, "text/event-stream"));
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", session,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                 "202 Accepted");
  mcp_web_expect(
      mcp_web_ask(&both.second, "POST", "/mcp", session,
                  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{"
                  "\"uri\":\"x:1\"}}"),
      "200 OK");
  idem_server_resource_updated(both.first.fixture->server, "x:2");
  mcp_web_settle(&stream);
  assert_null(strstr(stream.output, "resources/updated"));
  idem_server_resource_updated(both.second.fixture->server, "x:1");
  mcp_web_settle(&stream);
  assert_non_null(strstr(stream.output, "resources/updated"));
  assert_non_null(strstr(stream.output, "\"uri\":\"x:1\""));
  mcp_web_disconnect(&stream);
  mcp_web_pair_close(&both);
}

/* An event kept by one machine is fetched from the other. */
static void a_broken_stream_is_taken_up_elsewhere(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn stream;
  char session[64], headers[128];
  mcp_web_pair_open(&both);
  mcp_web_hello(&both.first, "", session);
  mcp_web_expect(
      mcp_web_ask(&both.first, "POST", "/mcp", session,
                  "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":"
                  "\"progress\",\"arguments\":{},\"_meta\":{\"progressToken\":9}}}"),
      "\"id\":3,\"result\"");
  mcp_web_connect(&both.second, &stream);
  snprintf(headers, sizeof headers, "%sLast-Event-ID: 1-2\r\n", session);
  mcp_web_send(&stream, "GET", "/mcp", headers, NULL);
  assert_null(strstr(stream.output, "\"progress\":1}"));
  assert_non_null(strstr(stream.output, "\"progress\":2.5"));
  assert_non_null(strstr(stream.output, "\"id\":3,\"result\""));
  mcp_web_disconnect(&stream);
  mcp_web_pair_close(&both);
}

static void answer_at_length(idem_request *request, void *user) {
  static char text[2000];
  (void)user;
  idem_progress(request, 1, 2, NULL);
  memset(text, 'x', sizeof text);
  idem_tool_text(request, text, sizeof text);
}

/* The answer found no room in the log: who lost it and comes back for it is told so, and does not wait. */
static void an_answer_that_was_not_kept_is_not_waited_for(void **state) {
  (void)state;
  mcp_web web;
  char session[64], headers[128];
  mcp_web_open(&web, &(mcp_web_opts){.table = {.log_bytes = 1000}});
  web.fixture->keep = answer_at_length;
  mcp_web_hello(&web, "", session);
  mcp_web_expect(
      mcp_web_ask(&web, "POST", "/mcp", session,
                  "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":"
                  "\"slow\",\"arguments\":{},\"_meta\":{\"progressToken\":9}}}"),
      "xxxx");
  snprintf(headers, sizeof headers, "%sLast-Event-ID: 1-2\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "GET", "/mcp", headers, NULL),
                 "\"id\":3,\"error\":{\"code\":-32603,\"message\":\"Internal error\",\"data\":{"
                 "\"reason\":\"answer-not-kept\"}}");
  /* ... and by whom nobody knows what it was, that there is none. */
  snprintf(headers, sizeof headers, "%sLast-Event-ID: 9-2\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "GET", "/mcp", headers, NULL), " 400 ");
  mcp_web_close(&web);
}

#define CALL(id)                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":"             \
  "\"slow\",\"arguments\":{},\"_meta\":{\"progressToken\":9}}}"

static void answer_shortly(idem_request *request, void *user) {
  static char text[600];
  (void)user;
  idem_progress(request, 1, 2, NULL);
  memset(text, 'x', sizeof text);
  idem_tool_text(request, text, sizeof text);
}

/* Two nodes whose logs are short, and a call at the first; gives the place after its first event. */
static void call_at_first(mcp_web_pair *both, void (*answer)(idem_request *, void *),
                          char headers[160]) {
  mcp_web *webs[] = {&both->first, &both->second};
  char session[64], place[48];
  both->store = mcp_web_store();
  for (int i = 0; i < 2; i++) {
    mcp_web_open(webs[i], &(mcp_web_opts){.store = both->store, .table = {.log_bytes = 1000}});
    assert_int_equal(idem__server_name_store(webs[i]->own.server, "shared"), IDEM_OK);
    webs[i]->fixture->drawn = 100 * (unsigned)i; /* ids of their own */
    webs[i]->fixture->keep = answer;
  }
  mcp_web_hello(webs[0], "", session);
  mcp_web_deliver(webs[1]); /* it knows the other node */
  char *output = mcp_web_ask(webs[0], "POST", "/mcp", session, CALL("3"));
  const char *id = strstr(output, "id: ");
  assert_non_null(id);
  assert_int_equal(sscanf(id, "id: %47[0-9a-f-]", place), 1);
  free(output);
  snprintf(headers, 160, "%sLast-Event-ID: %s\r\n", session, place);
}

/* Comes for it at the second, and lets both go on. */
static void come_back(mcp_web_pair *both, mcp_web_conn *stream, const char *headers) {
  mcp_web_connect(&both->second, stream);
  mcp_web_send(stream, "GET", "/mcp", headers, NULL);
  for (int i = 0; i < 3; i++) {
    mcp_web_settle(stream);
    mcp_web_deliver(&both->first);
  }
  mcp_web_settle(stream);
}

/* The node that answered lives: what it has said found no room in the log. */
static void an_answer_that_another_node_could_not_keep_is_not_waited_for(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn stream;
  char headers[160];
  call_at_first(&both, answer_at_length, headers);
  come_back(&both, &stream, headers);
  if (!strstr(stream.output, "\"id\":3,\"error\":{\"code\":-32603,\"message\":\"Internal error\","
                             "\"data\":{\"reason\":\"answer-not-kept\"}}"))
    fail_msg("%s", stream.output);
  mcp_web_disconnect(&stream);
  mcp_web_pair_close(&both);
}

/* ... or was pushed out by what came since: the stream ends, and is refused from then on. */
static void an_answer_of_another_node_that_was_pushed_out_is_not_waited_for(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn stream;
  char headers[160], session[64];
  call_at_first(&both, answer_shortly, headers);
  snprintf(session, sizeof session, "%.*s", (int)(strstr(headers, "Last") - headers), headers);
  for (int i = 0; i < 4; i++)
    mcp_web_expect(mcp_web_ask(&both.first, "POST", "/mcp", session, CALL("4")), "xxxx");
  come_back(&both, &stream, headers);
  if (!strstr(stream.output, "\r\n0\r\n\r\n")) fail_msg("it waits: %s", stream.output);
  mcp_web_disconnect(&stream);
  mcp_web_expect(mcp_web_ask(&both.second, "GET", "/mcp", headers, NULL), " 400 ");
  mcp_web_expect(mcp_web_ask(&both.first, "GET", "/mcp", headers, NULL), " 400 ");
  mcp_web_pair_close(&both);
}

/* Who still works is left alone. */
static void keep_it(idem_request *request, void *user) {
  idem_request **kept = user;
  idem_progress(request, 1, 2, NULL);
  idem_request_keep(request);
  *kept = request;
}

static void a_call_that_another_node_still_works_on_is_waited_for(void **state) {
  (void)state;
  mcp_web_pair both;
  mcp_web_conn call, stream;
  char headers[160], session[64], place[48];
  idem_request *kept = NULL;
  call_at_first(&both, answer_shortly, headers);
  snprintf(session, sizeof session, "%.*s", (int)(strstr(headers, "Last") - headers), headers);
  both.first.fixture->keep = keep_it;
  both.first.fixture->user = &kept;
  mcp_web_connect(&both.first, &call);
  mcp_web_send(&call, "POST", "/mcp", session, CALL("5"));
  mcp_web_settle(&call);
  assert_int_equal(sscanf(strstr(call.output, "id: "), "id: %47[0-9a-f-]", place), 1);
  mcp_web_disconnect(&call);
  snprintf(headers, sizeof headers, "%sLast-Event-ID: %s\r\n", session, place);
  come_back(&both, &stream, headers);
  assert_null(strstr(stream.output, "\r\n0\r\n\r\n"));
  idem_tool_text(kept, "done", 4);
  mcp_web_deliver(&both.first);
  mcp_web_deliver(&both.second);
  mcp_web_settle(&stream);
  if (!strstr(stream.output, "done")) fail_msg("%s", stream.output);
  mcp_web_disconnect(&stream);
  mcp_web_pair_close(&both);
}

/* Proxies cut what is silent, and nobody else tells the store that the session is in use. */
static void an_open_stream_hears_comments_and_keeps_its_session(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  char session[64];
  mcp_web_open(&web, &(mcp_web_opts){.table = {.session_idle_ms = 60000}});
  mcp_web_hello(&web, "", session);
  mcp_web_connect(&web, &stream);
  mcp_web_send(&stream, "GET", "/mcp", session, NULL);
  assert_int_equal(mcp_web_times(&stream, "3\r\n:\n\n\r\n"), 1); /* at once */
  for (size_t i = 0; i < 40; i++) {
    web.now_ms += 15000;
    mcp_web_settle(&stream);
    assert_int_equal(mcp_web_times(&stream, "3\r\n:\n\n\r\n"), i + 2);
  }
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "200 OK");
  mcp_web_disconnect(&stream);
  web.now_ms += 600000;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "404 Not Found");
  mcp_web_close(&web);
}

/* What does not fit into its connection's queue waits in the session's log. */
static void a_slow_reader_of_a_stream_misses_nothing(void **state) {
  (void)state;
  enum { UPDATES = 200 };
  static const idem_http_opts small = {.queued_bytes = 4096};
  mcp_web web;
  mcp_web_conn stream;
  char session[64];
  mcp_web_open(&web, &(mcp_web_opts){.http = &small});
  mcp_web_hello(&web, "", session);
  mcp_web_connect(&web, &stream);
  mcp_web_send(&stream, "GET", "/mcp", session, NULL);
  free(mcp_web_ask(&web, "POST", "/mcp", session,
                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
  free(mcp_web_ask(&web, "POST", "/mcp", session,
                   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{"
                   "\"uri\":\"x:1\"}}"));
  for (int i = 0; i < UPDATES; i++) {
    idem_server_resource_updated(web.fixture->server, "x:1");
    mcp_web_deliver(&web);
  }
  assert_true(idem__http_conn_queued(stream.conn) < 8192);
  mcp_web_settle(&stream);
  assert_int_equal(mcp_web_times(&stream, "resources/updated"), UPDATES);
  mcp_web_disconnect(&stream);
  mcp_web_close(&web);
}

/* More than are looked at in one go. */
static void all_who_are_away_find_what_they_missed(void **state) {
  (void)state;
  enum { AWAY = 100 };
  static char lines[AWAY][64];
  mcp_web web;
  mcp_web_conn stream;
  mcp_web_open(&web, &(mcp_web_opts){0});
  for (int i = 0; i < AWAY; i++) {
    mcp_web_hello(&web, "", lines[i]);
    mcp_web_connect(&web, &stream);
    mcp_web_send(&stream, "GET", "/mcp", lines[i], NULL);
    mcp_web_disconnect(&stream);
  }
  assert_int_equal(mcp_fixture_add_tool(web.fixture, "late"), IDEM_OK);
  mcp_web_deliver(&web);
  for (int i = 0; i < AWAY; i++) {
    char headers[128];
    snprintf(headers, sizeof headers, "%sLast-Event-ID: 0-0\r\n", lines[i]);
    mcp_web_connect(&web, &stream);
    mcp_web_send(&stream, "GET", "/mcp", headers, NULL);
    assert_non_null(strstr(stream.output, "tools/list_changed"));
    mcp_web_disconnect(&stream);
  }
  mcp_web_close(&web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_hears_of_what_was_subscribed_elsewhere),
      cmocka_unit_test(a_broken_stream_is_taken_up_elsewhere),
      cmocka_unit_test(an_answer_that_was_not_kept_is_not_waited_for),
      cmocka_unit_test(an_answer_that_another_node_could_not_keep_is_not_waited_for),
      cmocka_unit_test(an_answer_of_another_node_that_was_pushed_out_is_not_waited_for),
      cmocka_unit_test(a_call_that_another_node_still_works_on_is_waited_for),
      cmocka_unit_test(an_open_stream_hears_comments_and_keeps_its_session),
      cmocka_unit_test(a_slow_reader_of_a_stream_misses_nothing),
      cmocka_unit_test(all_who_are_away_find_what_they_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
