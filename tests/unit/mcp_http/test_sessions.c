/* test_sessions.c - legacy sessions live in the store: found by whoever shares it, bound to their
 * principal, capped, and reaped when nobody uses them any more. */
#include "support/fault_alloc.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

static void a_session_opened_here_is_served_there(void **state) {
  (void)state;
  mcp_web_pair both;
  char session[64];
  mcp_web_pair_open(&both);
  mcp_web_hello(&both.first, "", session);
  mcp_web_expect(mcp_web_ask(&both.second, "POST", "/mcp", session, PING), "200 OK");
  mcp_web_expect(mcp_web_ask(&both.second, "DELETE", "/mcp", session, NULL), "204 No Content");
  mcp_web_expect(mcp_web_ask(&both.first, "POST", "/mcp", session, PING), "404 Not Found");
  assert_int_equal(idem__store_memory_records(both.store, IDEM__STORE_SESSIONS), 0);
  mcp_web_pair_close(&both);
}

/* MUST elicitation.bound 2025-11-25 */
static void a_session_survives_its_process(void **state) {
  (void)state;
  mcp_web before, after;
  char session[64];
  idem__store *store = mcp_web_store();
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

/* ---------------------------------------------------------------- idle ones */

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

/* What the allocator has given for sessions that were opened, used once and left, where so many are remembered. */
static size_t bytes_for(size_t max_images) {
  enum { SESSIONS = 64, BLOCK = 16 /* what an allocator adds */ };
  static const later_store_opts later = {.seed = 5};
  fault_alloc fault;
  mcp_web web;
  char session[64];
  fault_alloc_init(&fault);
  mcp_web_open(&web, &(mcp_web_opts){.later = &later,
                                     .server = {.alloc = &fault.alloc},
                                     .table = {.max_images = max_images}});
  for (int i = 0; i < SESSIONS; i++) {
    mcp_web_hello(&web, "", session);
    mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", session, PING), "200 OK");
  }
  pass(&web, 2000);
  size_t bytes = fault.live_bytes + fault.live_blocks * BLOCK;
  size_t images = idem__session_table_sessions(web.table);
  assert_int_equal(images, max_images < SESSIONS ? max_images : SESSIONS);
  mcp_web_close(&web);
  return bytes;
}

static void a_session_that_is_remembered_takes_less_than_a_kibibyte(void **state) {
  (void)state;
  size_t few = bytes_for(1), many = bytes_for(64);
  assert_true(many > few);
  assert_in_range((many - few) / 63, 100, 1000);
}

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
  idem__store *store = mcp_web_store();
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

#define GREEDY "Authorization: Bearer greedy-greedy-greedy\r\n"
#define MODEST "Authorization: Bearer modest-modest-modest\r\n"
#define THIRD "Authorization: Bearer third-third-third-third\r\n"

static void expect_session(mcp_web *web, const char *who, const char *session, bool there) {
  char lines[192];
  snprintf(lines, sizeof lines, "%s%s", who, session);
  mcp_web_expect(mcp_web_ask(web, "POST", "/mcp", lines, PING), there ? "200 OK" : "404 Not Found");
}

static const char *const some_tokens[] = {"greedy-greedy-greedy", "modest-modest-modest",
                                          "third-third-third-third", NULL};

/* The modest one's is the oldest of all, and nobody has used it since. */
static void who_has_its_share_of_sessions_ends_its_own(void **state) {
  (void)state;
  enum { MOST = 4 };
  mcp_web web;
  char modest[64], greedy[MOST + 2][64];
  const idem_http_opts http = {.tokens = some_tokens};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http, .table = {.max_sessions = MOST}});
  mcp_web_hello(&web, MODEST, modest);
  for (int i = 0; i < MOST + 2; i++) mcp_web_hello(&web, GREEDY, greedy[i]);
  assert_int_equal(idem__session_table_sessions(web.table), MOST);
  for (int i = 0; i < MOST + 2; i++) expect_session(&web, GREEDY, greedy[i], i >= 3);
  expect_session(&web, MODEST, modest, true);
  mcp_web_close(&web);
}

static void who_has_more_than_its_share_makes_room_for_others(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn streams[2];
  char modest[64], greedy[3][64], third[2][64];
  const idem_http_opts http = {.tokens = some_tokens};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http, .table = {.max_sessions = 4}});
  mcp_web_hello(&web, MODEST, modest);
  for (int i = 0; i < 3; i++) mcp_web_hello(&web, GREEDY, greedy[i]);
  mcp_web_hello(&web, THIRD, third[0]);
  expect_session(&web, GREEDY, greedy[0], false);
  /* Nobody has more than two now: the oldest goes, whosever it is. */
  mcp_web_hello(&web, THIRD, third[1]);
  expect_session(&web, MODEST, modest, false);
  /* What is in use is not thrown out, also of who has too many. */
  for (int i = 0; i < 2; i++) {
    char lines[192];
    snprintf(lines, sizeof lines, THIRD "%s", third[i]);
    mcp_web_connect(&web, &streams[i]);
    mcp_web_send(&streams[i], "GET", "/mcp", lines, NULL);
  }
  mcp_web_hello(&web, THIRD, modest);
  expect_session(&web, GREEDY, greedy[1], false);
  for (int i = 0; i < 2; i++) mcp_web_disconnect(&streams[i]);
  mcp_web_close(&web);
}

/* Another header each time makes no other principal where nobody checks it: here at a second listener of the same server. */
static void whom_nobody_checks_is_one_holder_of_sessions(void **state) {
  (void)state;
  enum { MOST = 4 };
  mcp_web web, open;
  char modest[64], line[64], who[64];
  const idem_http_opts http = {.tokens = some_tokens};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http, .table = {.max_sessions = MOST}});
  mcp_web_open(&open, &(mcp_web_opts){.fixture = web.fixture, .shared = web.table});
  mcp_web_hello(&web, MODEST, modest);
  for (int i = 0; i < MOST + 2; i++) {
    snprintf(who, sizeof who, "Authorization: Bearer another-%d\r\n", i);
    mcp_web_hello(&open, who, line);
  }
  expect_session(&web, MODEST, modest, true);
  expect_session(&open, who, line, true);
  mcp_web_close(&open);
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

/* ------------------------------------------------------------- what is kept */

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
  idem__store *store = mcp_web_store();
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
      cmocka_unit_test(thousands_of_abandoned_sessions_are_reaped),
      cmocka_unit_test(a_session_elsewhere_is_idle_from_when_it_was_left),
      cmocka_unit_test(a_session_whose_image_goes_is_idle_from_then),
      cmocka_unit_test(a_session_that_is_remembered_takes_less_than_a_kibibyte),
      cmocka_unit_test(the_oldest_idle_session_makes_room),
      cmocka_unit_test(who_has_its_share_of_sessions_ends_its_own),
      cmocka_unit_test(who_has_more_than_its_share_makes_room_for_others),
      cmocka_unit_test(whom_nobody_checks_is_one_holder_of_sessions),
      cmocka_unit_test(room_is_made_where_it_is_needed_in_a_store_of_parts),
      cmocka_unit_test(a_session_keeps_little_of_its_handshake),
      cmocka_unit_test(a_session_keeps_no_endless_uris),
      cmocka_unit_test(a_refused_subscription_is_none),
      cmocka_unit_test(a_store_full_of_tasks_keeps_its_sessions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
