/* test_nodes.c - two servers that share a store, of which one answers later: what one has for the other, and whose session
 * it is, waits for the store. Peer and server are ended at every step of it. */
#include "kept_call.h"
#include "support/unit.h"

#include "mcp_server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 12 /* more than anything here takes */

typedef struct world {
  idem__store *store;
  mcp_web one, other; /* the store answers `other` later */
  char session[64];
} world;

/* The session listened at `one`, so that it must be claimed. */
static void open_world(world *in) {
  static const later_store_opts later = {.seed = 4};
  mcp_web_conn stream;
  in->store = mcp_web_store();
  mcp_web_open(&in->one, &(mcp_web_opts){.store = in->store});
  mcp_web_open(&in->other, &(mcp_web_opts){.store = in->store, .later = &later});
  assert_int_equal(idem__server_name_store(in->one.own.server, "shared"), IDEM_OK);
  assert_int_equal(idem__server_name_store(in->other.own.server, "shared"), IDEM_OK);
  in->other.fixture->drawn = 100; /* ids of its own */
  mcp_web_hello(&in->one, "", in->session);
  mcp_web_connect(&in->one, &stream);
  mcp_web_send(&stream, "GET", "/mcp", in->session, NULL);
  assert_non_null(strstr(stream.output, "text/event-stream"));
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&in->other);
}

static void close_world(world *in) {
  mcp_web_close(&in->other);
  mcp_web_close(&in->one);
  idem__store_unref(in->store);
}

typedef struct request {
  const char *method, *target, *body, *answer;
  bool resumes; /* the stream of a node that is not there */
} request;

/* What a dead node would have left in the log of the session. */
static void leave_stream(world *in) {
  const idem__event_head head = {.stream = IDEM__STREAM_BEGINS};
  static const char ids[4] = {'s', '[', '7', ']'};
  char entry[sizeof head + sizeof ids];
  const char *id = in->session + strlen("Mcp-Session-Id: ");
  memcpy(entry, &head, sizeof head);
  memcpy(entry + sizeof head, ids, sizeof ids);
  idem__store_op op = {.verb = IDEM__STORE_APPEND,
                       .space = IDEM__STORE_SESSIONS,
                       .name = id,
                       .name_len = IDEM__SESSION_ID,
                       .bytes = entry,
                       .len = sizeof entry};
  assert_int_equal(idem__store_ask(in->store, &op, NULL).number, 1);
}

static void send_to_other(world *in, mcp_web_conn *conn, const request *what) {
  char headers[160];
  if (what->resumes) leave_stream(in);
  snprintf(headers, sizeof headers, "%s%s", in->session,
           what->resumes ? "Last-Event-ID: abcdef00000001-0\r\n" : "");
  mcp_web_connect(&in->other, conn);
  mcp_web_send(conn, what->method, what->target, headers, what->body);
}

static void step(world *in) {
  later_store_hold(in->other.later, false);
  later_store_pump(in->other.later);
  later_store_hold(in->other.later, true);
  if (atomic_exchange(&in->other.woken, false)) idem__worker_deliver(in->other.mcp);
}

/* So many answers of the store come; then its peer goes, and the server with it or later. */
static void end_after(const request *what, int steps, bool server_too) {
  world in;
  mcp_web_conn conn;
  open_world(&in);
  later_store_hold(in.other.later, true);
  send_to_other(&in, &conn, what);
  for (int i = 0; i < steps; i++) step(&in);
  mcp_web_disconnect(&conn);
  later_store_hold(in.other.later, false);
  if (!server_too) {
    mcp_web_deliver(&in.other);
    mcp_web_deliver(&in.one);
  }
  close_world(&in);
}

static void play(const request *what) {
  world in;
  open_world(&in);
  mcp_web_conn conn;
  send_to_other(&in, &conn, what);
  mcp_web_settle(&conn);
  if (!strstr(conn.output, what->answer)) fail_msg("no %s in: %s", what->answer, conn.output);
  mcp_web_disconnect(&conn);
  close_world(&in);
  for (int steps = 0; steps < STEPS; steps++) {
    end_after(what, steps, false);
    end_after(what, steps, true);
  }
}

static void a_stream_that_moves_may_end_at_every_step(void **state) {
  (void)state;
  play(&(request){"GET", "/mcp", NULL, "text/event-stream", false});
}

static void a_stream_of_a_dead_node_may_end_at_every_step(void **state) {
  (void)state;
  play(&(request){"GET", "/mcp", NULL, "\"id\":7,\"error\"", true});
}

/* The number of a question that nobody asked, of a node that is not there. */
static void an_answer_for_a_dead_node_may_end_at_every_step(void **state) {
  (void)state;
  play(&(request){"POST", "/mcp", "{\"jsonrpc\":\"2.0\",\"id\":3000000000000001,\"result\":{}}",
                  "owner-gone", false});
}

/* Of a stream that nobody in particular had opened there: the tag behind the node's number says so. */
static void a_message_for_a_dead_node_may_end_at_every_step(void **state) {
  (void)state;
  play(&(request){"POST", "/message?sessionId=000001a7d35100000000000000000000",
                  "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}", "owner-gone", false});
}

/* ... and for one that lives: a letter, which it takes. */
static void an_answer_for_a_living_node_may_end_at_every_step(void **state) {
  static char body[128];
  world in;
  (void)state;
  for (int steps = -1; steps < STEPS; steps++) {
    mcp_web_conn conn;
    open_world(&in);
    snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"result\":{}}",
             (unsigned long long)idem__carry_first_call(in.one.table));
    later_store_hold(in.other.later, steps >= 0);
    mcp_web_connect(&in.other, &conn);
    mcp_web_send(&conn, "POST", "/mcp", in.session, body);
    for (int i = 0; i < steps; i++) step(&in);
    if (steps < 0) {
      mcp_web_settle(&conn);
      assert_non_null(strstr(conn.output, " 202 "));
      mcp_web_deliver(&in.one);
      assert_int_equal(idem__store_memory_records(in.store, IDEM__STORE_LETTERS), 0);
    }
    mcp_web_disconnect(&conn);
    later_store_hold(in.other.later, false);
    close_world(&in);
  }
}

/* ------------------------------------------------------- one that dies meanwhile */

#define OWNER "abcdef00000000000000000000000000"
#define LEASE_MS 10000u

/* The node whose stream is taken up, or where a session listened, comes, goes, or renews its record. */
static void set_owner(const world *in, idem__store_verb verb) {
  idem__store_op op = {.verb = verb,
                       .space = IDEM__STORE_NODES,
                       .name = OWNER,
                       .name_len = IDEM__NODE_ID,
                       .expect = IDEM__STORE_ANY,
                       .ttl_ms = LEASE_MS,
                       .now_ms = in->other.own.wall_ms};
  assert_int_equal(idem__store_ask(in->store, &op, NULL).status, IDEM_OK);
}

/* A stream of it is open at `other`, whose store answers one question a step from now on. */
static void wait_for_owner(world *in, mcp_web_conn *conn) {
  open_world(in);
  set_owner(in, IDEM__STORE_PUT);
  send_to_other(in, conn, &(request){"GET", "/mcp", NULL, "", true});
  mcp_web_settle(conn);
  assert_null(strstr(conn->output, "process-ended"));
  set_owner(in, IDEM__STORE_REMOVE);
  later_store_hold(in->other.later, true);
}

static void stop_waiting(world *in, mcp_web_conn *conn) {
  later_store_hold(in->other.later, false);
  mcp_web_disconnect(conn);
  close_world(in);
}

/* The last event that came. */
static void read_place(const mcp_web_conn *asks, char place[64]) {
  const char *at = NULL;
  for (const char *next = asks->output; (next = strstr(next, "\nid: ")); next++) at = next;
  assert_non_null(at);
  snprintf(place, 64, "%.*s", (int)strcspn(at + 5, "\n"), at + 5);
}

/* A call of that id at `one` whose stream has begun. */
static void begin_stream(world *in, mcp_web_conn *asks, kept_call *call, const char *id) {
  char body[160];
  kept_call_at(&in->one, call);
  snprintf(
      body, sizeof body,
      "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}",
      id);
  mcp_web_connect(&in->one, asks);
  mcp_web_send(asks, "POST", "/mcp", in->session, body);
  assert_non_null(call->request);
  idem_mcp_log(call->request, IDEM_MCP_INFO, NULL, "begun");
  mcp_web_settle(asks);
}

static void die(const world *in) {
  idem__store_op op = {.verb = IDEM__STORE_REMOVE,
                       .space = IDEM__STORE_NODES,
                       .name = in->one.own.server->node.id,
                       .name_len = IDEM__NODE_ID,
                       .expect = IDEM__STORE_ANY};
  assert_int_equal(idem__store_ask(in->store, &op, NULL).status, IDEM_OK);
}

static void who_hears_that_a_process_ended_hears_its_id_as_it_was_sent(void **state) {
  static const char *const ids[] = {
      "7",     "1.0",         "1e2",       "-0",           "12345678901234567890123",
      "\"é\"", "\"\\u00e9\"", "\"a\\/b\"", "\"a, \\\"]\"", "\"\""};
  (void)state;
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    world in;
    mcp_web_conn asks, conn;
    kept_call call = {0};
    char place[64], headers[160], expected[96];
    open_world(&in);
    begin_stream(&in, &asks, &call, ids[i]);
    read_place(&asks, place);
    die(&in);
    snprintf(headers, sizeof headers, "%sLast-Event-ID: %s\r\n", in.session, place);
    mcp_web_connect(&in.other, &conn);
    mcp_web_send(&conn, "GET", "/mcp", headers, NULL);
    mcp_web_settle(&conn);
    snprintf(expected, sizeof expected, "\"id\":%s,\"error\"", ids[i]);
    if (mcp_web_times(&conn, expected) != 1) fail_msg("no %s in: %s", expected, conn.output);
    assert_int_equal(mcp_web_times(&conn, "process-ended"), 1);
    idem_request_drop(call.request);
    mcp_web_disconnect(&conn);
    mcp_web_disconnect(&asks);
    close_world(&in);
  }
}

static void who_comes_back_behind_the_last_event_does_not_wait(void **state) {
  world in;
  mcp_web_conn asks, conn;
  kept_call call = {0};
  char place[64], headers[160];
  (void)state;
  open_world(&in);
  begin_stream(&in, &asks, &call, "7");
  idem_tool_text(call.request, "done", 4);
  mcp_web_settle(&asks);
  assert_int_equal(mcp_web_times(&asks, "\"id\":7,\"result\""), 1);
  read_place(&asks, place);
  snprintf(headers, sizeof headers, "%sLast-Event-ID: %s\r\n", in.session, place);
  mcp_web_connect(&in.other, &conn);
  mcp_web_send(&conn, "GET", "/mcp", headers, NULL);
  mcp_web_settle(&conn);
  assert_non_null(strstr(conn.output, "text/event-stream"));
  assert_int_equal(mcp_web_times(&conn, "\"id\":7"), 0);
  assert_true(idem_list_empty(&in.other.endpoint->streams));
  mcp_web_disconnect(&conn);
  mcp_web_disconnect(&asks);
  close_world(&in);
}

/* Somebody else wakes the server while the log is read, each time. */
static void who_waits_for_a_node_that_died_is_told_whatever_wakes_the_server(void **state) {
  world in;
  mcp_web_conn conn;
  int steps = 0;
  (void)state;
  wait_for_owner(&in, &conn);
  for (; steps < STEPS && !strstr(conn.output, "process-ended"); steps++) {
    idem__worker_deliver(in.other.mcp);
    idem__worker_deliver(in.other.mcp);
    step(&in);
    mcp_web_settle(&conn);
  }
  if (steps == STEPS) fail_msg("not told after %d answers of the store: %s", steps, conn.output);
  stop_waiting(&in, &conn);
}

/* Where the store does not say whether it lives it is asked when there is reason to, not with every breath. */
static void a_node_of_which_nobody_knows_costs_the_store_little(void **state) {
  world in;
  mcp_web_conn conn;
  size_t asked = 0;
  (void)state;
  wait_for_owner(&in, &conn);
  later_store_fail(in.other.later, IDEM_E_SYS);
  for (int i = 0; i < 200; i++) {
    idem__worker_deliver(in.other.mcp);
    asked += later_store_waiting(in.other.later) > 0;
    step(&in);
  }
  assert_in_range(asked, 1, STEPS);
  later_store_fail(in.other.later, IDEM_OK);
  later_store_hold(in.other.later, false);
  atomic_store(&in.other.own.server->node.look, true); /* as when it answers again */
  idem__worker_deliver(in.other.mcp);
  mcp_web_settle(&conn);
  assert_non_null(strstr(conn.output, "process-ended"));
  stop_waiting(&in, &conn);
}

/* ------------------------------------------------- one that died a moment before */

static void pass_time(world *in, mcp_web_conn *conn, uint64_t ms) {
  in->other.now_ms += ms;
  in->other.own.wall_ms += ms;
  mcp_web_settle(conn);
}

/* A session that listened at OWNER, whose record is there, comes to `other`. */
static void move_from_owner(world *in, mcp_web_conn *conn) {
  open_world(in);
  set_owner(in, IDEM__STORE_PUT);
  free(mcp_web_ask(&in->one, "POST", "/mcp", in->session,
                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
  mcp_web_expect(mcp_web_ask(&in->one, "POST", "/mcp", in->session,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\","
                             "\"params\":{\"uri\":\"x:1\"}}"),
                 "\"result\"");
  idem__http_session *session = idem_map_get(
      &in->one.table->by_id, in->session + strlen("Mcp-Session-Id: "), IDEM__SESSION_ID);
  assert_non_null(session);
  idem__http_session_change(session, in->one.endpoint->queue,
                            &(idem__session_change){.kind = IDEM__SESSION_LISTENS,
                                                    .uri = OWNER,
                                                    .uri_len = IDEM__NODE_ID},
                            NULL, NULL);
  mcp_web_deliver(&in->other);
  send_to_other(in, conn, &(request){"GET", "/mcp", NULL, "", false});
  mcp_web_settle(conn);
  assert_non_null(strstr(conn->output, "text/event-stream"));
}

static void expect_told(const world *in, const mcp_web_conn *conn, size_t times) {
  assert_int_equal(mcp_web_times(conn, "notifications/tools/list_changed"), times);
  assert_int_equal(mcp_web_times(conn, "notifications/resources/updated"), times);
  assert_int_equal(atomic_load(&in->other.own.server->node.awaited), 0);
}

/* Its record outlives it, and a client may be faster than that. */
static void who_comes_from_a_node_that_died_is_told_when_its_lease_is_over(void **state) {
  world in;
  mcp_web_conn conn;
  (void)state;
  move_from_owner(&in, &conn);
  assert_int_equal(atomic_load(&in.other.own.server->node.awaited), 1);
  pass_time(&in, &conn, LEASE_MS / 2);
  assert_int_equal(mcp_web_times(&conn, "notifications/tools/list_changed"), 0);
  pass_time(&in, &conn, LEASE_MS / 2 + LEASE_MS / 4);
  expect_told(&in, &conn, 1);
  for (int i = 0; i < 20; i++) pass_time(&in, &conn, LEASE_MS / 4 + 1);
  expect_told(&in, &conn, 1);
  mcp_web_disconnect(&conn);
  close_world(&in);
}

/* ... also where no stream is open then. */
static void what_was_missed_is_kept_for_who_comes_back(void **state) {
  world in;
  mcp_web_conn conn;
  char headers[160];
  (void)state;
  move_from_owner(&in, &conn);
  mcp_web_disconnect(&conn);
  in.other.now_ms += LEASE_MS + LEASE_MS / 4;
  in.other.own.wall_ms += LEASE_MS + LEASE_MS / 4;
  mcp_web_deliver(&in.other);
  snprintf(headers, sizeof headers, "%sLast-Event-ID: 0-0\r\n", in.session);
  mcp_web_connect(&in.other, &conn);
  mcp_web_send(&conn, "GET", "/mcp", headers, NULL);
  expect_told(&in, &conn, 1);
  mcp_web_disconnect(&conn);
  close_world(&in);
}

/* One that lives has kept everything, and so has one that stopped by itself. */
static void who_comes_from_a_node_that_lives_or_stops_is_told_nothing(void **state) {
  (void)state;
  for (int stops = 0; stops < 2; stops++) {
    world in;
    mcp_web_conn conn;
    move_from_owner(&in, &conn);
    if (stops) set_owner(&in, IDEM__STORE_REMOVE);
    for (int i = 0; i < 20; i++) {
      if (!stops) set_owner(&in, IDEM__STORE_TOUCH);
      pass_time(&in, &conn, LEASE_MS / 4 + 1);
    }
    expect_told(&in, &conn, 0);
    mcp_web_disconnect(&conn);
    close_world(&in);
  }
}

/* --------------------------------------------- one whose lease may be over */

/* How often the store was asked until an answer to a question of OWNER's was acknowledged, or refused. */
static size_t cost_of_answer(world *in, const char *expected) {
  char body[128];
  size_t asked = 0;
  mcp_web_conn conn;
  snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"result\":{}}",
           (0xabcdefULL << 28) + 1);
  later_store_hold(in->other.later, true);
  mcp_web_connect(&in->other, &conn);
  mcp_web_send(&conn, "POST", "/mcp", in->session, body);
  for (; !strstr(conn.output, expected) && asked < STEPS; asked++) {
    step(in);
    mcp_web_settle(&conn);
  }
  if (!strstr(conn.output, expected)) fail_msg("no %s in: %s", expected, conn.output);
  mcp_web_disconnect(&conn);
  later_store_hold(in->other.later, false);
  mcp_web_deliver(&in->other);
  return asked;
}

/* One question more in a while, and none that would be accepted for the dead. Nobody was told of the end. */
static void a_letter_for_a_node_whose_lease_is_over_is_refused(void **state) {
  world in;
  (void)state;
  open_world(&in);
  set_owner(&in, IDEM__STORE_PUT);
  mcp_web_deliver(&in.other);
  (void)cost_of_answer(&in, " 202 "); /* which finds the session */
  size_t cost = cost_of_answer(&in, " 202 ");
  in.other.own.wall_ms += LEASE_MS / 2;
  assert_int_equal(cost_of_answer(&in, " 202 "), cost + 1);
  assert_int_equal(cost_of_answer(&in, " 202 "), cost);
  in.other.own.wall_ms += LEASE_MS / 2 - LEASE_MS / 32;
  assert_int_equal(cost_of_answer(&in, " 202 "), cost + 1); /* the last that it is there */
  in.other.own.wall_ms += LEASE_MS / 32;
  assert_true(idem__node_lives(in.other.own.server, 0xabcdef));
  assert_int_equal(cost_of_answer(&in, " 409 "), cost);
  assert_false(idem__node_lives(in.other.own.server, 0xabcdef));
  close_world(&in);
}

/* -------------------------------------------------------------- many of them */

/* Records as so many nodes have them; or they go. */
static void set_crowd(const world *in, size_t count, idem__store_verb verb) {
  for (size_t i = 0; i < count; i++) {
    char id[IDEM__NODE_ID + 1];
    snprintf(id, sizeof id, "%06zx%026d", 2 * i + 1, 0);
    idem__store_op op = {.verb = verb,
                         .space = IDEM__STORE_NODES,
                         .name = id,
                         .name_len = IDEM__NODE_ID,
                         .expect = IDEM__STORE_ANY};
    assert_int_equal(idem__store_ask(in->store, &op, NULL).status, IDEM_OK);
  }
}

static void expect_answer(world *in, const request *what) {
  mcp_web_conn conn;
  send_to_other(in, &conn, what);
  mcp_web_settle(&conn);
  if (!strstr(conn.output, what->answer)) fail_msg("no %s in: %s", what->answer, conn.output);
  mcp_web_disconnect(&conn);
}

/* However many there are or were, also more than a node keeps in mind: who is gone is not taken to live, and who lives has
 * letters. */
static void of_many_nodes_the_dead_are_known(void **state) {
  static const size_t crowds[] = {300, IDEM__NODES_KNOWN + 300};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world in;
    open_world(&in);
    set_crowd(&in, crowds[i], IDEM__STORE_PUT);
    mcp_web_deliver(&in.one);
    mcp_web_deliver(&in.other);
    assert_in_range(idem__node_others(in.one.own.server), 300, IDEM__NODES_KNOWN - 1);
    expect_answer(&in, &(request){"GET", "/mcp", NULL, "\"id\":7,\"error\"", true});
    expect_answer(&in, &(request){"POST", "/mcp",
                                  "{\"jsonrpc\":\"2.0\",\"id\":3000000000000001,\"result\":{}}",
                                  "owner-gone", false});
    expect_answer(&in, &(request){"POST", "/mcp",
                                  "{\"jsonrpc\":\"2.0\",\"id\":1342177281,\"result\":{}}", " 202 ",
                                  false}); /* of the node of number 5 */
    set_crowd(&in, crowds[i], IDEM__STORE_REMOVE);
    mcp_web_deliver(&in.one);
    mcp_web_deliver(&in.other);
    assert_int_equal(idem__node_others(in.one.own.server), 1);
    assert_int_equal(idem__node_others(in.other.own.server), 1);
    close_world(&in);
  }
}

/* ------------------------------------------------------------------ lists */

static void lists_that_change_at_one_are_news_at_the_other(void **state) {
  world in;
  mcp_web_conn stream;
  (void)state;
  open_world(&in);
  free(mcp_web_ask(&in.one, "POST", "/mcp", in.session,
                   "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
  mcp_web_connect(&in.other, &stream);
  mcp_web_send(&stream, "GET", "/mcp", in.session, NULL);
  mcp_web_settle(&stream);
  assert_null(strstr(stream.output, "list_changed"));
  assert_int_equal(idem_server_remove_tool(in.one.own.server, "echo"), IDEM_OK);
  mcp_web_deliver(&in.one);
  mcp_web_deliver(&in.other);
  mcp_web_settle(&stream);
  assert_non_null(strstr(stream.output, "notifications/tools/list_changed"));
  mcp_web_disconnect(&stream);
  close_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_that_moves_may_end_at_every_step),
      cmocka_unit_test(a_stream_of_a_dead_node_may_end_at_every_step),
      cmocka_unit_test(an_answer_for_a_dead_node_may_end_at_every_step),
      cmocka_unit_test(a_message_for_a_dead_node_may_end_at_every_step),
      cmocka_unit_test(an_answer_for_a_living_node_may_end_at_every_step),
      cmocka_unit_test(who_hears_that_a_process_ended_hears_its_id_as_it_was_sent),
      cmocka_unit_test(who_comes_back_behind_the_last_event_does_not_wait),
      cmocka_unit_test(who_waits_for_a_node_that_died_is_told_whatever_wakes_the_server),
      cmocka_unit_test(a_node_of_which_nobody_knows_costs_the_store_little),
      cmocka_unit_test(who_comes_from_a_node_that_died_is_told_when_its_lease_is_over),
      cmocka_unit_test(what_was_missed_is_kept_for_who_comes_back),
      cmocka_unit_test(who_comes_from_a_node_that_lives_or_stops_is_told_nothing),
      cmocka_unit_test(a_letter_for_a_node_whose_lease_is_over_is_refused),
      cmocka_unit_test(of_many_nodes_the_dead_are_known),
      cmocka_unit_test(lists_that_change_at_one_are_news_at_the_other),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
