/* test_waiting.c - requests that wait for the store before they begin: held within bounds, answered when it
 * answers, refused with their id when it does not, and gone with their client, at every step. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"ping\"}"
/* A call whose client has gone may still be under way, with its id. */
#define PING_AFTER "{\"jsonrpc\":\"2.0\",\"id\":42,\"method\":\"ping\"}"
#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"      \
  "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define CALL(name)                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"tools/call\",\"params\":{\"name\":\"" name          \
  "\",\"arguments\":{},\"task\":{}}}"
#define METHOD(name, params)                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"" name "\",\"params\":" params "}"

#define INITIALIZED "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"

typedef struct world {
  mcp_web web;
  mcp_web_conn conn;
  char session[128];
} world;

static void open_world(world *w, const idem_http_opts *http) {
  static const later_store_opts later = {.seed = 3};
  mcp_web_open(&w->web, &(mcp_web_opts){.later = &later, .http = http});
  mcp_web_hello(&w->web, "Authorization: Bearer alice\r\n", w->session);
  strcat(w->session, "Authorization: Bearer alice\r\n");
}

/* Sends it while the store is silent. */
static void send_and_wait(world *w, const char *method, const char *body) {
  bool hello = body && strstr(body, "\"initialize\"");
  later_store_hold(w->web.later, true);
  mcp_web_connect(&w->web, &w->conn);
  mcp_web_send(&w->conn, method, "/mcp", hello ? "" : w->session, body);
}

static void expect_alive(world *w) {
  later_store_hold(w->web.later, false);
  char *answer = mcp_web_ask(&w->web, "POST", "/mcp", w->session, PING_AFTER);
  assert_non_null(strstr(answer, "\"id\":42,\"result\":{}"));
  free(answer);
}

/* The store has them all, so none is lost. */
static void a_node_remembers_a_bounded_number_of_sessions(void **state) {
  enum { MANY = 20 };
  static const later_store_opts later = {.seed = 3};
  char sessions[MANY][128];
  mcp_web web;
  (void)state;
  mcp_web_open(&web, &(mcp_web_opts){.later = &later, .table = {.max_images = 4}});
  for (int i = 0; i < MANY; i++) mcp_web_hello(&web, "", sessions[i]);
  assert_in_range(idem__session_table_sessions(web.table), 1, 5);
  for (int i = 0; i < MANY; i++) {
    char *answer = mcp_web_ask(&web, "POST", "/mcp", sessions[i], PING);
    if (!strstr(answer, "\"id\":41,\"result\":{}")) fail_msg("session %d: %s", i, answer);
    free(answer);
  }
  assert_in_range(idem__session_table_sessions(web.table), 1, 5);
  mcp_web_close(&web);
}

static void a_request_is_answered_when_its_session_is_found(void **state) {
  (void)state;
  world w;
  open_world(&w, NULL);
  send_and_wait(&w, "POST", PING);
  assert_int_equal(w.conn.len, 0);
  assert_int_equal(later_store_waiting(w.web.later), 1);
  later_store_hold(w.web.later, false);
  mcp_web_settle(&w.conn);
  assert_non_null(strstr(w.conn.output, "\"id\":41,\"result\":{}"));
  mcp_web_disconnect(&w.conn);
  mcp_web_close(&w.web);
}

/* Each is stopped at its first wait, its second, ...: by its client, or by the server's end. */
typedef struct question {
  const char *method, *body;
} question;
static const question questions[] = {
    {"POST", PING},
    {"POST", HELLO},
    {"GET", NULL},
    {"DELETE", NULL},
    {"POST", METHOD("logging/setLevel", "{\"level\":\"info\"}")},
    {"POST", METHOD("resources/subscribe", "{\"uri\":\"x:1\"}")},
    {"POST", METHOD("resources/unsubscribe", "{\"uri\":\"x:1\"}")},
    {"POST", METHOD("tasks/list", "{}")},
    {"POST", METHOD("tasks/get", "{\"taskId\":\"03030303030303030303030303030303\"}")},
    {"POST", METHOD("tasks/result", "{\"taskId\":\"03030303030303030303030303030303\"}")},
    {"POST", METHOD("tasks/cancel", "{\"taskId\":\"03030303030303030303030303030303\"}")},
    {"POST", CALL("job")},
    {"POST", CALL("job_ask")},
    {"POST", CALL("progress")},
    {"POST", INITIALIZED},
};
enum { QUESTIONS = sizeof questions / sizeof questions[0], STEPS = 8 };

/* Lets so many operations happen; each answer may lead to the next. */
static void let_happen(world *w, unsigned steps) {
  for (; steps; steps--) {
    later_store_hold(w->web.later, false);
    later_store_pump(w->web.later);
    later_store_hold(w->web.later, true);
    mcp_web_settle(&w->conn);
  }
}

static void play(const question *asked, unsigned steps, bool server_ends) {
  world w;
  open_world(&w, NULL);
  send_and_wait(&w, asked->method, asked->body);
  let_happen(&w, steps);
  mcp_web_disconnect(&w.conn);
  bool ended = strcmp(asked->method, "DELETE") == 0;
  if (!server_ends && !ended) {
    expect_alive(&w);
    while (later_store_pump(w.web.later)) mcp_web_deliver(&w.web);
    assert_int_equal(idem__store_queue_waiting(w.web.endpoint->queue), 0);
    assert_int_equal(idem__store_queue_waiting(w.web.mcp->store_queue), 0);
  }
  mcp_web_close(&w.web);
}

static void who_waits_goes_with_its_client_at_every_step(void **state) {
  (void)state;
  for (size_t i = 0; i < QUESTIONS; i++)
    for (unsigned steps = 0; steps < STEPS; steps++) play(&questions[i], steps, false);
}

static void who_waits_goes_with_the_server_at_every_step(void **state) {
  (void)state;
  for (size_t i = 0; i < QUESTIONS; i++)
    for (unsigned steps = 0; steps < STEPS; steps++) play(&questions[i], steps, true);
}

/* ---------------------------------------------------------- what has no answer */

static void pass(world *w, uint64_t ms) {
  for (uint64_t until = w->web.now_ms + ms; w->web.now_ms < until;) {
    w->web.now_ms += 500;
    mcp_web_settle(&w->conn);
  }
}

/* Whether its record says so, which is what another process of the same store goes by. */
static bool is_initialized(world *w) {
  idem__store_op op = {.verb = IDEM__STORE_GET,
                       .space = IDEM__STORE_SESSIONS,
                       .name = w->session + strlen("Mcp-Session-Id: "),
                       .name_len = IDEM__SESSION_ID,
                       .now_ms = w->web.now_ms};
  idem_buf record;
  idem_buf_init(&record, NULL, 65536);
  assert_int_equal(idem__store_ask(later_store_inner(w->web.later), &op, &record).status, IDEM_OK);
  idem_buf_put(&record, "", 1);
  bool said = strstr(record.data, "\"initialized\":true") != NULL;
  idem_buf_deinit(&record);
  return said;
}

static void initialized_is_acknowledged_when_the_store_has_it(void **state) {
  (void)state;
  world w;
  open_world(&w, NULL);
  assert_false(is_initialized(&w));
  send_and_wait(&w, "POST", INITIALIZED);
  for (unsigned step = 0; w.conn.len == 0 && step < STEPS; step++) {
    assert_false(is_initialized(&w));
    let_happen(&w, 1);
  }
  assert_memory_equal(w.conn.output, "HTTP/1.1 202 ", 13);
  assert_true(is_initialized(&w));
  mcp_web_disconnect(&w.conn);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

/* Its session was found, and then the store is silent, or refuses. */
static void initialized_that_the_store_does_not_take_is_refused(void **state) {
  (void)state;
  for (int refuses = 0; refuses < 2; refuses++) {
    world w;
    open_world(&w, NULL);
    send_and_wait(&w, "POST", INITIALIZED);
    if (refuses) later_store_fail(w.web.later, IDEM_E_SYS);
    let_happen(&w, refuses ? 2 : 1);
    if (!refuses) assert_int_equal(w.conn.len, 0);
    pass(&w, refuses ? 0 : 14000);
    assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
    assert_non_null(strstr(w.conn.output, "\"reason\":\"unavailable\""));
    mcp_web_disconnect(&w.conn);
    later_store_fail(w.web.later, IDEM_OK);
    expect_alive(&w);
    mcp_web_close(&w.web);
  }
}

/* ------------------------------------------------------------------- silence */

static void a_silent_store_ends_a_request_with_its_id(void **state) {
  (void)state;
  for (size_t i = 0; i < QUESTIONS; i++) {
    world w;
    bool asked = questions[i].body && strstr(questions[i].body, "\"id\"");
    open_world(&w, NULL);
    send_and_wait(&w, questions[i].method, questions[i].body);
    pass(&w, 9000);
    assert_int_equal(w.conn.len, 0);
    pass(&w, 5000);
    assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
    assert_non_null(strstr(w.conn.output, "\"reason\":\"unavailable\""));
    if (asked) assert_non_null(strstr(w.conn.output, "\"id\":41,\"error\":{\"code\":-32603"));
    mcp_web_disconnect(&w.conn);
    expect_alive(&w);
    mcp_web_close(&w.web);
  }
}

#define AWAY                                                                                       \
  "\"error\":{\"code\":-32603,\"message\":\"Internal error: the store does not answer, or has no " \
  "room: "                                                                                         \
  "try again in a moment\",\"data\":{\"reason\":\"unavailable\"}}"

typedef struct lack {
  void (*makes)(idem__store *store, idem_status status);
  idem_status status;
} lack;

/* What comes back where the store fails from some step on; NULL: from none. */
static char *ask_in_lack(const question *asked, unsigned steps, const lack *what) {
  world w;
  open_world(&w, NULL);
  send_and_wait(&w, asked->method, asked->body);
  let_happen(&w, steps);
  if (what) what->makes(w.web.later, what->status);
  later_store_hold(w.web.later, false);
  for (int i = 0; i < STEPS; i++) mcp_web_settle(&w.conn);
  char *answer = strdup(w.conn.output ? w.conn.output : "");
  if (what) what->makes(w.web.later, IDEM_OK);
  mcp_web_disconnect(&w.conn);
  mcp_web_close(&w.web);
  return answer;
}

static int code_of(const char *answer) {
  const char *error = strstr(answer, "\"error\":{\"code\":");
  return error ? atoi(error + strlen("\"error\":{\"code\":")) : 0;
}

/* Whatever is asked, and whenever the store goes: the same code, words, reason, status and header, or the answer that it has anyway. */
static void a_store_that_is_away_is_told_in_the_same_words_everywhere(void **state) {
  static const lack lacks[] = {{later_store_away, IDEM_E_SYS},
                               {later_store_fail, IDEM_E_SYS},
                               {later_store_fail, IDEM_E_TIMEOUT},
                               {later_store_fail, IDEM_E_LIMIT}};
  unsigned told = 0;
  (void)state;
  for (unsigned i = 0; i < QUESTIONS; i++) {
    char *usual = ask_in_lack(&questions[i], 0, NULL);
    for (unsigned j = 0; j < sizeof lacks / sizeof *lacks * 4; j++) {
      char *answer = ask_in_lack(&questions[i], j % 4, &lacks[j / 4]);
      if (code_of(answer) != code_of(usual)) {
        told++;
        bool whole = strstr(answer, "HTTP/1.1 503 ") && strstr(answer, "Retry-After: 1\r\n");
        if (!whole || !strstr(answer, AWAY))
          fail_msg("question %u, step %u, lack %u: %s", i, j % 4, j / 4, answer);
      }
      free(answer);
    }
    free(usual);
  }
  assert_true(told >= 2 * QUESTIONS);
}

static void a_store_that_fails_is_told_apart_from_one_that_knows_nothing(void **state) {
  (void)state;
  world w;
  open_world(&w, NULL);
  later_store_fail(w.web.later, IDEM_E_SYS);
  for (int several = 0; several < 2; several++) {
    char *refused = mcp_web_ask(&w.web, "POST", "/mcp", w.session, several ? "[" PING "]" : PING);
    assert_non_null(strstr(refused, "503 Service Unavailable"));
    assert_non_null(strstr(refused, "Retry-After: 1"));
    assert_non_null(strstr(refused, "\"id\":41,\"error\""));
    free(refused);
  }
  /* What needs no store is served. */
  char *answer = mcp_web_ask(
      &w.web, "POST", "/mcp", "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n",
      METHOD("server/discover",
             "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28"
             "\",\"io.modelcontextprotocol/clientCapabilities\":{}}}"));
  assert_non_null(strstr(answer, "supportedVersions"));
  free(answer);
  later_store_fail(w.web.later, IDEM_OK);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

static unsigned times(const char *text, const char *part) {
  unsigned count = 0;
  for (; (text = strstr(text, part)); text++) count++;
  return count;
}

static void expect_once(const char *text) {
  static const char *const parts[] = {"\"progress\":1", "\"progress\":2.5", "\"id\":41,\"result\""};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (times(text, parts[i]) != 1)
      fail_msg("%u times %s in: %s", times(text, parts[i]), parts[i], text);
}

/* One operation has no good answer, whether it happened or not; whoever comes back sees each event once. True: it was one of the stream's events. */
static bool play_trouble(unsigned step, void (*trouble)(idem__store *store, idem_status status)) {
  world w;
  char back[256];
  open_world(&w, NULL);
  send_and_wait(&w, "POST",
                METHOD("tools/call", "{\"name\":\"progress\",\"arguments\":{},"
                                     "\"_meta\":{\"progressToken\":9}}"));
  let_happen(&w, step);
  bool numbered = strstr(w.conn.output, "id: 1-0") != NULL;
  bool over = strstr(w.conn.output, "\"result\"") != NULL;
  trouble(w.web.later, IDEM_E_SYS);
  let_happen(&w, 1);
  trouble(w.web.later, IDEM_OK);
  later_store_hold(w.web.later, false);
  mcp_web_settle(&w.conn);
  if (numbered) {
    expect_once(w.conn.output);
    assert_int_equal(times(w.conn.output, "id: 1-"), 4);
    mcp_web_disconnect(&w.conn);
    mcp_web_connect(&w.web, &w.conn);
    snprintf(back, sizeof back, "%sLast-Event-ID: 1-0\r\n", w.session);
    mcp_web_send(&w.conn, "GET", "/mcp", back, NULL);
    mcp_web_settle(&w.conn);
    expect_once(w.conn.output);
  }
  mcp_web_disconnect(&w.conn);
  mcp_web_close(&w.web);
  return numbered && !over;
}

static void an_event_of_which_nobody_heard_is_kept_once(void **state) {
  unsigned events = 0;
  (void)state;
  for (unsigned step = 0; step < STEPS; step++)
    events += play_trouble(step, later_store_lose) + play_trouble(step, later_store_fail);
  assert_true(events >= 4);
}

/* ... of one session: none overtakes another, and none is refused for it. */
static void subscriptions_at_once_are_all_made(void **state) {
  enum { MANY = 60 };
  (void)state;
  world w;
  mcp_web_conn conns[MANY];
  char body[200], id[32];
  open_world(&w, NULL);
  later_store_hold(w.web.later, true);
  for (int i = 0; i < MANY; i++) {
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"resources/subscribe\",\"params\":{"
             "\"uri\":\"x:%d\"}}",
             100 + i, i);
    mcp_web_connect(&w.web, &conns[i]);
    mcp_web_send(&conns[i], "POST", "/mcp", w.session, body);
  }
  later_store_hold(w.web.later, false);
  while (later_store_pump(w.web.later)) mcp_web_deliver(&w.web);
  for (int i = 0; i < MANY; i++) {
    mcp_web_settle(&conns[i]);
    snprintf(id, sizeof id, "\"id\":%d,", 100 + i);
    if (!strstr(conns[i].output, id) || !strstr(conns[i].output, "\"result\":{}"))
      fail_msg("%d: %s", i, conns[i].output);
    mcp_web_disconnect(&conns[i]);
  }
  expect_alive(&w);
  mcp_web_close(&w.web);
}

/* Together, not one after the other; and with what they are to do. */
static void subscriptions_at_once_are_refused_where_the_store_fails(void **state) {
  enum { MANY = 8 };
  (void)state;
  world w;
  mcp_web_conn conns[MANY];
  char body[200];
  open_world(&w, NULL);
  for (int i = 0; i < MANY; i++) {
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"resources/subscribe\",\"params\":{"
             "\"uri\":\"x:%d\"}}",
             100 + i, i);
    mcp_web_connect(&w.web, &conns[i]);
    mcp_web_send(&conns[i], "POST", "/mcp", w.session, body);
    later_store_fail(w.web.later, i < MANY / 2 ? IDEM_OK : IDEM_E_LIMIT);
  }
  while (later_store_pump(w.web.later)) mcp_web_deliver(&w.web);
  for (int i = 0; i < MANY; i++) {
    mcp_web_settle(&conns[i]);
    assert_null(strstr(conns[i].output, "Subscription failed"));
    assert_non_null(strstr(conns[i].output, i == MANY - 1 ? " 503 " : "HTTP/1.1 "));
    mcp_web_disconnect(&conns[i]);
  }
  later_store_fail(w.web.later, IDEM_OK);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

/* Of something else: no session ends for that, and who comes is told to come again. */
static void a_store_without_room_costs_nobody_a_session(void **state) {
  enum { MANY = 6 };
  static const later_store_opts later = {.seed = 3};
  char sessions[MANY][128];
  mcp_web web;
  (void)state;
  mcp_web_open(&web, &(mcp_web_opts){.later = &later});
  for (int i = 0; i < MANY; i++) mcp_web_hello(&web, "", sessions[i]);
  later_store_fail(web.later, IDEM_E_LIMIT);
  for (int i = 0; i < 3; i++) {
    char *answer = mcp_web_ask(&web, "POST", "/mcp", "", HELLO);
    assert_non_null(strstr(answer, "\r\nRetry-After: "));
    assert_non_null(strstr(answer, "\"reason\":\"unavailable\""));
    assert_non_null(strstr(answer, "\"id\":41,"));
    mcp_web_expect(answer, "503 Service Unavailable");
  }
  later_store_fail(web.later, IDEM_OK);
  for (int i = 0; i < MANY; i++)
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", sessions[i], PING), "\"result\":{}");
  mcp_web_close(&web);
}

static void no_more_wait_than_may(void **state) {
  (void)state;
  world w;
  mcp_web_conn second;
  open_world(&w, &(idem_http_opts){.max_waiting = 1});
  send_and_wait(&w, "POST", PING);
  mcp_web_connect(&w.web, &second);
  mcp_web_send(&second, "POST", "/mcp", w.session, PING);
  assert_non_null(strstr(second.output, "503 Service Unavailable"));
  assert_non_null(strstr(second.output, "\"id\":41,\"error\":{\"code\":-32603"));
  assert_int_equal(w.conn.len, 0);
  mcp_web_disconnect(&second);
  mcp_web_disconnect(&w.conn);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

/* Its stream would begin without the id of the session, which nobody could use then. */
static void initialize_is_no_stream_before_its_session_is_known(void **state) {
  (void)state;
  world w;
  open_world(&w, &(idem_http_opts){.stream_ms = 300});
  send_and_wait(&w, "POST", HELLO);
  for (int i = 0; i < 2; i++) {
    w.web.now_ms += 500;
    mcp_web_settle(&w.conn);
    assert_int_equal(w.conn.len, 0);
  }
  later_store_hold(w.web.later, false);
  mcp_web_settle(&w.conn);
  assert_int_equal(mcp_web_times(&w.conn, "\r\nMcp-Session-Id: "), 1);
  assert_int_equal(mcp_web_times(&w.conn, "\"result\":{\"protocolVersion\""), 1);
  mcp_web_disconnect(&w.conn);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

static void no_more_bytes_wait_than_may(void **state) {
  (void)state;
  world w;
  open_world(&w, &(idem_http_opts){.waiting_bytes = 8192});
  static char body[9000];
  memset(body, ' ', sizeof body - 1);
  memcpy(body, PING, sizeof PING - 1);
  send_and_wait(&w, "POST", body);
  assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
  assert_non_null(strstr(w.conn.output, "\"id\":41,\"error\":{\"code\":-32603"));
  mcp_web_disconnect(&w.conn);
  expect_alive(&w);
  mcp_web_close(&w.web);
}

static void a_server_that_stops_refuses_who_waits_with_its_id(void **state) {
  (void)state;
  static const question some[] = {
      {"POST", PING}, {"POST", INITIALIZED}, {"GET", NULL}, {"DELETE", NULL}};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    world w;
    open_world(&w, NULL);
    send_and_wait(&w, some[i].method, some[i].body);
    idem__http_conn_abort(w.conn.conn, w.web.now_ms);
    mcp_web_settle(&w.conn);
    assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
    assert_int_equal(mcp_web_times(&w.conn, "\r\nRetry-After: "), 1);
    if (i == 0) assert_non_null(strstr(w.conn.output, "\"id\":41,\"error\":{\"code\":-32603"));
    mcp_web_disconnect(&w.conn);
    if (i < 3) expect_alive(&w);
    mcp_web_close(&w.web);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_node_remembers_a_bounded_number_of_sessions),
      cmocka_unit_test(a_request_is_answered_when_its_session_is_found),
      cmocka_unit_test(who_waits_goes_with_its_client_at_every_step),
      cmocka_unit_test(who_waits_goes_with_the_server_at_every_step),
      cmocka_unit_test(initialized_is_acknowledged_when_the_store_has_it),
      cmocka_unit_test(initialized_that_the_store_does_not_take_is_refused),
      cmocka_unit_test(a_silent_store_ends_a_request_with_its_id),
      cmocka_unit_test(a_store_that_is_away_is_told_in_the_same_words_everywhere),
      cmocka_unit_test(a_store_that_fails_is_told_apart_from_one_that_knows_nothing),
      cmocka_unit_test(an_event_of_which_nobody_heard_is_kept_once),
      cmocka_unit_test(subscriptions_at_once_are_all_made),
      cmocka_unit_test(subscriptions_at_once_are_refused_where_the_store_fails),
      cmocka_unit_test(a_store_without_room_costs_nobody_a_session),
      cmocka_unit_test(initialize_is_no_stream_before_its_session_is_known),
      cmocka_unit_test(no_more_wait_than_may),
      cmocka_unit_test(no_more_bytes_wait_than_may),
      cmocka_unit_test(a_server_that_stops_refuses_who_waits_with_its_id),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
