/* test_loops.c - one legacy session on two loops of a server: its ids in flight, its cancellations, and which of its streams
 * is told. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct loops {
  mcp_web first, second;
  idem_request *kept[4];
  size_t count;
  size_t cancelled;
  char session[64];
} loops;

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason;
  ((loops *)user)->cancelled++;
  idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  loops *both = user;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, both);
  both->kept[both->count++] = request;
}

/* Two loops of one server: they share its sessions. */
static void open_loops(loops *both) {
  *both = (loops){.count = 0};
  mcp_web_open(&both->first, &(mcp_web_opts){.store = NULL});
  mcp_web_open(&both->second,
               &(mcp_web_opts){.fixture = both->first.fixture, .shared = both->first.table});
  both->first.fixture->keep = keep;
  both->first.fixture->user = both;
  mcp_web_hello(&both->first, "", both->session);
}

static void close_loops(loops *both) {
  mcp_web_close(&both->second);
  mcp_web_close(&both->first);
}

#define SLOW(id)                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}"

static void an_id_in_flight_is_refused_on_every_loop(void **state) {
  (void)state;
  loops both;
  mcp_web_conn waiting;
  open_loops(&both);
  mcp_web_connect(&both.first, &waiting);
  mcp_web_send(&waiting, "POST", "/mcp", both.session, SLOW("7"));
  mcp_web_expect(mcp_web_ask(&both.first, "POST", "/mcp", both.session, SLOW("7.0")),
                 "duplicate-id");
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session, SLOW("7")),
                 "duplicate-id");
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session, SLOW("7e0")),
                 "duplicate-id");
  assert_int_equal(both.count, 1); /* the first is untouched */
  idem_tool_text(both.kept[0], "done", 4);
  mcp_web_settle(&waiting);
  assert_non_null(strstr(waiting.output, "\"id\":7,\"result\""));
  /* Answered: it may be used again, and \"7\" is another id. */
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session,
                             "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
                 "\"id\":7,\"result\"");
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session,
                             "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"method\":\"ping\"}"),
                 "\"id\":\"7\",\"result\"");
  mcp_web_disconnect(&waiting);
  close_loops(&both);
}

static void long_ids_and_other_sessions_are_told_apart(void **state) {
  (void)state;
  enum { LONG = 500 };
  loops both;
  mcp_web_conn waiting;
  char other[64], id[LONG + 3], body[LONG + 128];
  open_loops(&both);
  mcp_web_hello(&both.second, "", other);
  memset(id, 'x', sizeof id);
  id[0] = id[LONG + 1] = '"';
  id[LONG + 2] = '\0';
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\","
           "\"params\":{\"name\":\"slow\"}}",
           id);
  mcp_web_connect(&both.first, &waiting);
  mcp_web_send(&waiting, "POST", "/mcp", both.session, body);
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session, body), "duplicate-id");
  assert_int_equal(both.count, 1);
  mcp_web_conn neighbour;
  mcp_web_connect(&both.second, &neighbour);
  mcp_web_send(&neighbour, "POST", "/mcp", other, body);
  assert_int_equal(both.count, 2); /* another session's ids are its own */
  for (size_t i = 0; i < 2; i++) idem_tool_text(both.kept[i], "x", 1);
  mcp_web_disconnect(&neighbour);
  mcp_web_disconnect(&waiting);
  close_loops(&both);
}

static void a_cancellation_finds_its_request_on_any_loop(void **state) {
  (void)state;
  loops both;
  mcp_web_conn waiting[2];
  open_loops(&both);
  mcp_web *const webs[] = {&both.first, &both.second};
  const char *const calls[] = {SLOW("1"), SLOW("2")};
  for (int i = 0; i < 2; i++) {
    mcp_web_connect(webs[i], &waiting[i]);
    mcp_web_send(&waiting[i], "POST", "/mcp", both.session, calls[i]);
  }
  mcp_web_expect(
      mcp_web_ask(&both.first, "POST", "/mcp", both.session,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                  "\"requestId\":1}}"),
      "202 Accepted");
  assert_int_equal(both.cancelled, 1);
  mcp_web_expect(
      mcp_web_ask(&both.first, "POST", "/mcp", both.session,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                  "\"requestId\":2}}"),
      "202 Accepted");
  mcp_web_settle(&waiting[1]);
  assert_int_equal(both.cancelled, 2);
  /* They end without an answer, and their ids are free. */
  for (int i = 0; i < 2; i++) {
    mcp_web_settle(&waiting[i]);
    assert_null(strstr(waiting[i].output, "\"result\""));
    assert_non_null(strstr(waiting[i].output, "HTTP/1.1 20"));
  }
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", both.session,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"),
                 "\"id\":1,\"result\"");
  for (int i = 0; i < 2; i++) mcp_web_disconnect(&waiting[i]);
  close_loops(&both);
}

/* Streamable HTTP: the same message is not sent on several streams. */
/* MUST http.one-stream 2025-03-26..2025-11-25 */
static void a_notification_goes_to_one_stream_of_a_session(void **state) {
  (void)state;
  loops both;
  mcp_web_conn streams[3];
  open_loops(&both);
  mcp_web *const webs[] = {&both.first, &both.first, &both.second};
  mcp_web_expect(mcp_web_ask(&both.first, "POST", "/mcp", both.session,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                 "202 Accepted");
  for (int i = 0; i < 3; i++) {
    mcp_web_connect(webs[i], &streams[i]);
    mcp_web_send(&streams[i], "GET", "/mcp", both.session, NULL);
  }
  for (size_t newest = 3; newest-- > 0;) {
    char name[] = {'t', (char)('0' + newest), 0};
    size_t before[3];
    for (size_t i = 0; i <= newest; i++) before[i] = mcp_web_times(&streams[i], "list_changed");
    assert_int_equal(mcp_fixture_add_tool(both.first.fixture, name), IDEM_OK);
    for (size_t i = 0; i <= newest; i++) mcp_web_settle(&streams[i]);
    for (size_t i = 0; i <= newest; i++) mcp_web_settle(&streams[i]);
    size_t told = 0;
    for (size_t i = 0; i <= newest; i++)
      told += mcp_web_times(&streams[i], "list_changed") - before[i];
    assert_int_equal(told, 1);
    if (newest == 2) assert_int_equal(mcp_web_times(&streams[2], "list_changed"), 1);
    mcp_web_disconnect(&streams[newest]); /* another one is told from then on */
  }
  close_loops(&both);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_id_in_flight_is_refused_on_every_loop),
      cmocka_unit_test(long_ids_and_other_sessions_are_told_apart),
      cmocka_unit_test(a_cancellation_finds_its_request_on_any_loop),
      cmocka_unit_test(a_notification_goes_to_one_stream_of_a_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
