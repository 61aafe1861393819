/* test_sessions.c - legacy sessions live in the store: found by whoever shares it, bound to their
 * principal, capped, and reaped when nobody uses them any more. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

static idem__store *new_store(void) {
  idem__store *store;
  idem__store_memory_opts opts = {.seed = 5};
  assert_int_equal(idem__store_memory_new(&opts, &store), IDEM_OK);
  return store;
}

/* Two servers that share a store, as two machines would. */
static void open_pair(mcp_web *first, mcp_web *second, idem__store **store) {
  *store = new_store();
  mcp_web_open(first, &(mcp_web_opts){.store = *store});
  mcp_web_open(second, &(mcp_web_opts){.store = *store});
}

static void close_pair(mcp_web *first, mcp_web *second, idem__store *store) {
  mcp_web_close(second);
  mcp_web_close(first);
  idem__store_unref(store);
}

static void a_session_opened_here_is_served_there(void **state) {
  (void)state;
  mcp_web first, second;
  idem__store *store;
  char session[64];
  open_pair(&first, &second, &store);
  mcp_web_hello(&first, "", session);
  mcp_web_expect(mcp_web_ask(&second, "POST", "/mcp", session, PING), "200 OK");
  mcp_web_expect(mcp_web_ask(&second, "DELETE", "/mcp", session, NULL), "204 No Content");
  mcp_web_expect(mcp_web_ask(&first, "POST", "/mcp", session, PING), "404 Not Found");
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_SESSIONS), 0);
  close_pair(&first, &second, store);
}

/* MUST elicitation.bound 2025-11-25 */
static void a_session_survives_its_process(void **state) {
  (void)state;
  mcp_web before, after;
  char session[64];
  idem__store *store = new_store();
  mcp_web_open(&before, &(mcp_web_opts){.store = store});
  mcp_web_hello(&before, "Authorization: Bearer a\r\n", session);
  mcp_web_close(&before);
  mcp_web_open(&after, &(mcp_web_opts){.store = store});
  char headers[128];
  snprintf(headers, sizeof headers, "%sAuthorization: Bearer a\r\n", session);
  mcp_web_expect(mcp_web_ask(&after, "POST", "/mcp", headers, PING), "200 OK");
  snprintf(headers, sizeof headers, "%sAuthorization: Bearer b\r\n", session);
  mcp_web_expect(mcp_web_ask(&after, "POST", "/mcp", headers, PING), "404 Not Found");
  mcp_web_expect(mcp_web_ask(&after, "POST", "/mcp", session, PING), "404 Not Found");
  mcp_web_close(&after);
  idem__store_unref(store);
}

/* What is subscribed to on one machine is told on the stream that the other holds open. */
static void a_stream_hears_of_what_was_subscribed_elsewhere(void **state) {
  (void)state;
  mcp_web first, second;
  idem__store *store;
  mcp_web_conn stream;
  char session[64];
  open_pair(&first, &second, &store);
  mcp_web_hello(&first, "", session);
  mcp_web_connect(&first, &stream);
  mcp_web_send(&stream, "GET", "/mcp", session, NULL);
  assert_non_null(strstr(stream.output, "text/event-stream"));
  mcp_web_expect(mcp_web_ask(&second, "POST", "/mcp", session,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                 "202 Accepted");
  mcp_web_expect(
      mcp_web_ask(&second, "POST", "/mcp", session,
                  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{"
                  "\"uri\":\"x:1\"}}"),
      "200 OK");
  idem_server_resource_updated(first.fixture->server, "x:2");
  mcp_web_settle(&stream);
  assert_null(strstr(stream.output, "resources/updated"));
  idem_server_resource_updated(second.fixture->server, "x:1");
  mcp_web_settle(&stream);
  assert_non_null(strstr(stream.output, "resources/updated"));
  assert_non_null(strstr(stream.output, "\"uri\":\"x:1\""));
  mcp_web_disconnect(&stream);
  close_pair(&first, &second, store);
}

/* An event kept by one machine is fetched from the other. */
static void a_broken_stream_is_taken_up_elsewhere(void **state) {
  (void)state;
  mcp_web first, second;
  idem__store *store;
  mcp_web_conn stream;
  char session[64], headers[128];
  open_pair(&first, &second, &store);
  mcp_web_hello(&first, "", session);
  mcp_web_expect(
      mcp_web_ask(&first, "POST", "/mcp", session,
                  "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":"
                  "\"progress\",\"arguments\":{},\"_meta\":{\"progressToken\":9}}}"),
      "\"id\":3,\"result\"");
  mcp_web_connect(&second, &stream);
  snprintf(headers, sizeof headers, "%sLast-Event-ID: 1-2\r\n", session);
  mcp_web_send(&stream, "GET", "/mcp", headers, NULL);
  assert_null(strstr(stream.output, "\"progress\":1}"));
  assert_non_null(strstr(stream.output, "\"progress\":2.5"));
  assert_non_null(strstr(stream.output, "\"id\":3,\"result\""));
  mcp_web_disconnect(&stream);
  close_pair(&first, &second, store);
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

static size_t times_in(const char *text, const char *wanted) {
  size_t count = 0;
  for (; (text = strstr(text, wanted)); text++) count++;
  return count;
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
  assert_int_equal(times_in(stream.output, "3\r\n:\n\n\r\n"), 1); /* at once */
  for (size_t i = 0; i < 40; i++) {
    web.now_ms += 15000;
    mcp_web_settle(&stream);
    assert_int_equal(times_in(stream.output, "3\r\n:\n\n\r\n"), i + 2);
  }
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "200 OK");
  mcp_web_disconnect(&stream);
  web.now_ms += 600000;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "404 Not Found");
  mcp_web_close(&web);
}

static void pass(mcp_web *web, uint64_t ms) {
  web->now_ms += ms;
  mcp_web_deliver(web);
}

/* In a store elsewhere a session that was just used keeps the time of one in use for a moment, so that the next request need not change its
 * record; it is idle from when it was left all the same. */
static void a_session_elsewhere_is_idle_from_when_it_was_left(void **state) {
  (void)state;
  static const later_store_opts later = {.seed = 5};
  mcp_web web;
  char session[64];
  mcp_web_open(&web, &(mcp_web_opts){.later = &later, .table = {.session_idle_ms = 600000}});
  mcp_web_hello(&web, "", session);
  for (int i = 0; i < 3; i++) {
    pass(&web, 500);
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "200 OK");
    assert_true(idem__session_table_deadline(web.table) == web.now_ms + 1000);
  }
  pass(&web, 999);
  assert_true(idem__session_table_deadline(web.table) == web.now_ms + 1);
  pass(&web, 1);
  assert_true(idem__session_table_deadline(web.table) == UINT64_MAX);
  pass(&web, 598000);
  assert_int_equal(idem__session_table_sessions(web.table), 1);
  pass(&web, 1001);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "404 Not Found");
  mcp_web_close(&web);
}

/* ... also where its image makes room for others. */
static void a_session_whose_image_goes_is_idle_from_then(void **state) {
  (void)state;
  static const later_store_opts later = {.seed = 5};
  mcp_web web;
  char sessions[3][64];
  mcp_web_open(&web, &(mcp_web_opts){.later = &later,
                                     .table = {.session_idle_ms = 600000, .max_images = 2}});
  for (int i = 0; i < 3; i++) mcp_web_hello(&web, "", sessions[i]);
  assert_int_equal(idem__session_table_sessions(web.table), 2);
  pass(&web, 2000);
  pass(&web, 600000);
  for (int i = 0; i < 3; i++)
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", sessions[i], PING), "404 Not Found");
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
  assert_int_equal(times_in(stream.output, "resources/updated"), UPDATES);
  mcp_web_disconnect(&stream);
  mcp_web_close(&web);
}

/* ------------------------------------------------------------ ids in flight */

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

static size_t times_told(const mcp_web_conn *stream) {
  size_t count = 0;
  for (const char *at = stream->output; (at = strstr(at, "list_changed")); at++) count++;
  return count;
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
    for (size_t i = 0; i <= newest; i++) before[i] = times_told(&streams[i]);
    assert_int_equal(mcp_fixture_add_tool(both.first.fixture, name), IDEM_OK);
    for (size_t i = 0; i <= newest; i++) mcp_web_settle(&streams[i]);
    for (size_t i = 0; i <= newest; i++) mcp_web_settle(&streams[i]);
    size_t told = 0;
    for (size_t i = 0; i <= newest; i++) told += times_told(&streams[i]) - before[i];
    assert_int_equal(told, 1);
    if (newest == 2) assert_int_equal(times_told(&streams[2]), 1);
    mcp_web_disconnect(&streams[newest]); /* another one is told from then on */
  }
  close_loops(&both);
}

/* ------------------------------------------------------------------ reaping */

/* The fixture's own randomness is soon exhausted. */
static void draw(void *ctx, void *bytes, size_t len) {
  static uint64_t drawn;
  (void)ctx;
  memset(bytes, 0, len);
  drawn++;
  memcpy(bytes, &drawn, len < sizeof drawn ? len : sizeof drawn);
}

static void thousands_of_abandoned_sessions_are_reaped(void **state) {
  (void)state;
  enum { ABANDONED = 5000 };
  mcp_web web;
  mcp_web_conn stream;
  char used[64], streaming[64], session[64];
  idem__store *store = new_store();
  mcp_web_open(&web, &(mcp_web_opts){.server = {.random = draw},
                                     .store = store,
                                     .table = {.session_idle_ms = 60000}});
  mcp_web_deliver(&web);
  size_t at_first = idem__store_memory_bytes(store); /* its node's */
  mcp_web_hello(&web, "", used);
  mcp_web_hello(&web, "", streaming);
  mcp_web_connect(&web, &stream);
  mcp_web_send(&stream, "GET", "/mcp", streaming, NULL);
  for (int i = 0; i < ABANDONED; i++) mcp_web_hello(&web, "", session);
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_SESSIONS), ABANDONED + 2);
  web.now_ms += 59999;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", used, PING), "200 OK");
  assert_int_equal(idem__session_table_sessions(web.table), ABANDONED + 2);
  web.now_ms += 1;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "404 Not Found");
  /* The one that was used and the one that somebody listens to are still there. */
  assert_int_equal(idem__session_table_sessions(web.table), 2);
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_SESSIONS), 2);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", used, PING), "200 OK");
  web.now_ms += 3600000;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", streaming, PING), "200 OK");
  assert_int_equal(idem__session_table_sessions(web.table), 1);
  mcp_web_disconnect(&stream);
  web.now_ms += 60000;
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", streaming, PING), "404 Not Found");
  assert_int_equal(idem__session_table_sessions(web.table), 0);
  assert_int_equal(idem__store_memory_bytes(store), at_first);
  mcp_web_close(&web);
  idem__store_unref(store);
}

static void the_oldest_idle_session_makes_room(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn streams[2];
  char first[64], second[64], third[64];
  mcp_web_open(&web, &(mcp_web_opts){.table = {.max_sessions = 2}});
  mcp_web_hello(&web, "", first);
  mcp_web_hello(&web, "", second);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", first, PING), "200 OK");
  mcp_web_hello(&web, "", third);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", second, PING), "404 Not Found");
  const char *const open[] = {first, third};
  for (int i = 0; i < 2; i++) {
    mcp_web_connect(&web, &streams[i]);
    mcp_web_send(&streams[i], "GET", "/mcp", open[i], NULL);
  }
  /* Nobody who is there is thrown out. */
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", "",
                             "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                             "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                             "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"),
                 "\"error\":");
  for (int i = 0; i < 2; i++) mcp_web_disconnect(&streams[i]);
  mcp_web_hello(&web, "", second);
  mcp_web_close(&web);
}

/* Each part of a store has its share of the bound: who comes is let in where somebody went. */
static void room_is_made_where_it_is_needed_in_a_store_of_parts(void **state) {
  (void)state;
  enum { PARTS = 4 };
  idem__store *parts[PARTS], *store;
  mcp_web web;
  char id[64];
  for (unsigned i = 0; i < PARTS; i++)
    assert_int_equal(idem__store_memory_new(&(idem__store_memory_opts){.seed = i}, &parts[i]),
                     IDEM_OK);
  assert_int_equal(
      idem__store_spread_new(&(idem__store_spread_opts){.parts = parts, .count = PARTS}, &store),
      IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.store = store, .table = {.max_sessions = 2 * PARTS}});
  for (int i = 0; i < 40; i++) {
    mcp_web_hello(&web, "", id);
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", id, PING), "200 OK");
  }
  size_t all = 0;
  for (unsigned i = 0; i < PARTS; i++)
    all += idem__store_memory_records(parts[i], IDEM__STORE_SESSIONS);
  assert_in_range(all, PARTS, 2 * PARTS);
  mcp_web_close(&web);
  idem__store_unref(store);
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

/* Answers `before`, `count` times `piece`, `after`. */
static char *ask_long(mcp_web *web, const char *headers, const char *before, const char *piece,
                      size_t count, const char *after) {
  size_t size = strlen(before) + count * strlen(piece) + strlen(after) + 1;
  char *body = malloc(size), *at = stpcpy(body, before);
  for (size_t i = 0; i < count; i++) at = stpcpy(at, piece);
  strcpy(at, after);
  char *answer = mcp_web_ask(web, "POST", "/mcp", headers, body);
  free(body);
  return answer;
}

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"                           \
  "\"protocolVersion\":\"2025-11-25\","

/* A session keeps what may be asked for, and no more of that than a client has to say. */
static void a_session_keeps_little_of_its_handshake(void **state) {
  (void)state;
  mcp_web web;
  idem__store *store = new_store();
  mcp_web_open(&web, &(mcp_web_opts){.store = store});
  mcp_web_expect(ask_long(&web, "", HELLO "\"capabilities\":{},\"x\":[1", ",1", 200000, "]}}"),
                 "200 OK");
  assert_int_equal(idem__store_memory_records(store, IDEM__STORE_SESSIONS), 1);
  assert_true(idem__store_memory_bytes(store) < 2000);
  mcp_web_expect(ask_long(&web, "", HELLO "\"capabilities\":{\"x\":[1", ",1", 10000, "]}}}"),
                 "\"data\":{\"reason\":\"client-info-too-large\"}");
  mcp_web_expect(ask_long(&web, "", HELLO "\"capabilities\":{},\"clientInfo\":{\"name\":\"", "x",
                          70000, "\",\"version\":\"1\"}}}"),
                 "400 Bad Request");
  mcp_web_expect(ask_long(&web, "", HELLO "\"capabilities\":{},\"clientInfo\":{\"name\":\"",
                          "\\u0001", 60000, "\",\"version\":\"1\"}}}"),
                 "200 OK");
  mcp_web_close(&web);
  idem__store_unref(store);
}

static void a_session_keeps_no_endless_uris(void **state) {
  (void)state;
  static const char subscribe[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"x:";
  mcp_web web;
  char session[64];
  mcp_web_open(&web, &(mcp_web_opts){0});
  mcp_web_hello(&web, "", session);
  mcp_web_expect(ask_long(&web, session, subscribe, "x", 8000, "\"}}"), "\"result\":{}");
  mcp_web_expect(ask_long(&web, session, subscribe, "x", 8192, "\"}}"), "\"error\":");
  mcp_web_close(&web);
}

static size_t subscriptions(mcp_web *web, const char *session) {
  const idem__http_session *found =
      idem_map_get(&web->table->by_id, session + strlen("Mcp-Session-Id: "), IDEM__SESSION_ID);
  assert_non_null(found);
  return found->legacy.subscriptions.count;
}

/* What is refused leaves nothing behind, neither for want of room in the session nor in the store. */
static void a_refused_subscription_is_none(void **state) {
  (void)state;
  static const char subscribe[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"x:%d";
  mcp_web web;
  char session[64], body[160];
  idem__store *store;
  idem__store_memory_opts opts = {.seed = 5, .max_bytes = 12000};
  assert_int_equal(idem__store_memory_new(&opts, &store), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.store = store, .server = {.max_subscriptions = 100}});
  mcp_web_hello(&web, "", session);
  size_t taken = 0;
  for (int i = 0; i < 60; i++) {
    snprintf(body, sizeof body, subscribe, i);
    char *answer = ask_long(&web, session, body, "x", 1000, "\"}}");
    taken += strstr(answer, "\"result\":{}") != NULL;
    free(answer);
  }
  assert_in_range(taken, 2, 11);
  assert_int_equal(subscriptions(&web, session), taken);
  mcp_web_close(&web);
  idem__store_unref(store);
  mcp_web_open(&web, &(mcp_web_opts){.server = {.max_subscriptions = 100}});
  mcp_web_hello(&web, "", session);
  for (int i = 0; i < 60; i++) {
    snprintf(body, sizeof body, subscribe, i);
    free(ask_long(&web, session, body, "x", 1000, "\"}}"));
  }
  assert_int_equal(subscriptions(&web, session), 25);
  mcp_web_close(&web);
}

/* Tasks leave room for sessions, and one that finds none costs few others theirs. */
static void a_store_full_of_tasks_keeps_its_sessions(void **state) {
  (void)state;
  enum { SESSIONS = 12 };
  static char big[40000];
  static char lines[SESSIONS][64];
  mcp_web web;
  idem__store *store;
  idem__store_memory_opts opts = {.seed = 5, .max_bytes = 40000};
  idem__store_op op = {.verb = IDEM__STORE_PUT, .space = IDEM__STORE_TASKS, .name_len = 1};
  assert_int_equal(idem__store_memory_new(&opts, &store), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.store = store});
  op.expect = IDEM__STORE_ANY;
  op.bytes = big;
  op.len = 4000;
  for (op.name = "0123456789"; *op.name; op.name++) idem__store_ask(store, &op, NULL);
  for (int i = 0; i < SESSIONS; i++) mcp_web_hello(&web, "", lines[i]);
  op.space = IDEM__STORE_SESSIONS;
  op.len = 40000 - idem__store_memory_bytes(store) - 200; /* now it is full */
  op.name = "x";
  assert_int_equal(idem__store_ask(store, &op, NULL).status, IDEM_OK);
  free(ask_long(&web, "", HELLO "\"capabilities\":{},\"clientInfo\":{\"name\":\"", "x", 30000,
                "\",\"version\":\"1\"}}}"));
  size_t left = 0;
  for (int i = 0; i < SESSIONS; i++) {
    char *answer = mcp_web_ask(&web, "POST", "/mcp", lines[i], PING);
    left += strstr(answer, "200 OK") != NULL;
    free(answer);
  }
  assert_in_range(left, SESSIONS - 4, SESSIONS);
  mcp_web_close(&web);
  idem__store_unref(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_opened_here_is_served_there),
      cmocka_unit_test(a_session_survives_its_process),
      cmocka_unit_test(a_stream_hears_of_what_was_subscribed_elsewhere),
      cmocka_unit_test(a_broken_stream_is_taken_up_elsewhere),
      cmocka_unit_test(an_answer_that_was_not_kept_is_not_waited_for),
      cmocka_unit_test(an_open_stream_hears_comments_and_keeps_its_session),
      cmocka_unit_test(a_slow_reader_of_a_stream_misses_nothing),
      cmocka_unit_test(an_id_in_flight_is_refused_on_every_loop),
      cmocka_unit_test(long_ids_and_other_sessions_are_told_apart),
      cmocka_unit_test(a_cancellation_finds_its_request_on_any_loop),
      cmocka_unit_test(a_notification_goes_to_one_stream_of_a_session),
      cmocka_unit_test(thousands_of_abandoned_sessions_are_reaped),
      cmocka_unit_test(a_session_elsewhere_is_idle_from_when_it_was_left),
      cmocka_unit_test(a_session_whose_image_goes_is_idle_from_then),
      cmocka_unit_test(the_oldest_idle_session_makes_room),
      cmocka_unit_test(room_is_made_where_it_is_needed_in_a_store_of_parts),
      cmocka_unit_test(all_who_are_away_find_what_they_missed),
      cmocka_unit_test(a_session_keeps_little_of_its_handshake),
      cmocka_unit_test(a_session_keeps_no_endless_uris),
      cmocka_unit_test(a_refused_subscription_is_none),
      cmocka_unit_test(a_store_full_of_tasks_keeps_its_sessions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
