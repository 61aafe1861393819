/* test_sse_far.c - what is posted at one process for a stream of 2024-11-05's transport at another, while the store that carries it is in
 * trouble. */
#include "http/endpoint.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include "mcp_server/server.h"

#include <stdlib.h>
#include <string.h>

#define LEASE_MS 10000u
#define PING "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}"

typedef struct world {
  idem__store *store;
  mcp_web one, other; /* the store answers `other` later */
} world;

static void open_world(world *in) {
  static const later_store_opts later = {.seed = 4};
  in->store = mcp_web_store();
  mcp_web_open(&in->one, &(mcp_web_opts){.store = in->store});
  mcp_web_open(&in->other, &(mcp_web_opts){.store = in->store, .later = &later});
  assert_int_equal(idem__server_name_store(in->one.own.server, "shared"), IDEM_OK);
  assert_int_equal(idem__server_name_store(in->other.own.server, "shared"), IDEM_OK);
  in->other.fixture->drawn = 100; /* ids of its own */
  mcp_web_deliver(&in->other);
}

static void close_world(world *in) {
  mcp_web_close(&in->other);
  mcp_web_close(&in->one);
  idem__store_unref(in->store);
}

typedef struct trouble {
  void (*makes)(idem__store *store, idem_status status);
  idem_status status;
  const char *expected;
  bool known; /* that nothing was sent */
} trouble;

/* Of the POST and the stream at most one has an answer with its id. */
static void post_in(world *in, const trouble *what) {
  mcp_web_conn stream, conn;
  char target[128];
  mcp_web_connect(&in->one, &stream);
  mcp_web_open_sse(&stream, "", target);
  mcp_web_connect(&in->other, &conn);
  what->makes(in->other.later, what->status);
  mcp_web_send(&conn, "POST", target, "", PING);
  mcp_web_settle(&conn);
  what->makes(in->other.later, IDEM_OK);
  mcp_web_deliver(&in->one);
  mcp_web_settle(&stream);
  if (!strstr(conn.output, what->expected)) fail_msg("no %s in: %s", what->expected, conn.output);
  assert_int_equal(mcp_web_times(&stream, "\"id\":77"), what->makes == later_store_lose);
  assert_int_equal(mcp_web_times(&conn, "\"id\":77"), what->known);
  assert_int_equal(mcp_web_times(&conn, "Retry-After"), what->known);
  mcp_web_disconnect(&conn);
  mcp_web_disconnect(&stream);
}

static void a_post_that_may_have_arrived_is_not_answered_with_its_id(void **state) {
  static const idem_status unknown[] = {IDEM_E_TIMEOUT, IDEM_E_SYS, IDEM_E_CLOSED};
  world in;
  (void)state;
  open_world(&in);
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    post_in(&in, &(trouble){later_store_lose, unknown[i], "outcome-unknown", false});
    post_in(&in, &(trouble){later_store_fail, unknown[i], "409 Conflict", false});
  }
  post_in(&in, &(trouble){later_store_fail, IDEM_E_LIMIT, "503 ", true});
  post_in(&in, &(trouble){later_store_away, IDEM_E_SYS, "503 ", true});
  close_world(&in);
}

/* Whether its process lives is asked first. */
static void a_post_that_was_not_sent_is_refused_with_its_id(void **state) {
  world in;
  (void)state;
  open_world(&in);
  in.other.own.wall_ms += LEASE_MS / 2;
  post_in(&in, &(trouble){later_store_fail, IDEM_E_TIMEOUT, "503 ", true});
  close_world(&in);
}

/* The server is stopped while the store has it. */
static void a_post_that_waits_when_its_server_stops_may_arrive(void **state) {
  world in;
  mcp_web_conn stream, conn;
  char target[128];
  (void)state;
  open_world(&in);
  mcp_web_connect(&in.one, &stream);
  mcp_web_open_sse(&stream, "", target);
  later_store_hold(in.other.later, true);
  mcp_web_connect(&in.other, &conn);
  mcp_web_send(&conn, "POST", target, "", PING);
  idem__http_conn_abort(conn.conn, in.other.now_ms);
  mcp_web_settle(&conn);
  assert_int_equal(mcp_web_times(&conn, "outcome-unknown"), 1);
  assert_int_equal(mcp_web_times(&conn, "\"id\":77"), 0);
  mcp_web_disconnect(&conn);
  later_store_hold(in.other.later, false);
  mcp_web_deliver(&in.other);
  mcp_web_deliver(&in.one);
  mcp_web_settle(&stream);
  assert_int_equal(mcp_web_times(&stream, "\"id\":77"), 1);
  mcp_web_disconnect(&stream);
  close_world(&in);
}

static uint64_t over(void *ctx) {
  (void)ctx;
  return UINT64_MAX;
}
static void on_late(void *user) { (void)user; }

/* Its sender was told 202 by a process that cannot know: the stream says that it was not done. */
static void a_post_that_the_stream_has_no_room_for_is_refused_there(void **state) {
  enum { BYTES = 9 << 20 };
  static const char start[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"";
  world in;
  mcp_web_conn stream;
  char target[128];
  (void)state;
  open_world(&in);
  mcp_web_connect(&in.one, &stream);
  mcp_web_open_sse(&stream, "", target);
  idem_pool *pool = in.one.endpoint->rpc->pool;
  idem__pool_set_turns(pool, 1, over, on_late, NULL); /* none comes */
  idem__pool_turn_over(pool, 1);
  char *body = malloc(BYTES + 1);
  assert_non_null(body);
  memset(body, ' ', BYTES);
  memcpy(body, start, sizeof start - 1);
  body[BYTES - 1] = '}';
  body[BYTES] = '\0';
  mcp_web_expect(mcp_web_ask(&in.one, "POST", target, "", body), " 202 ");
  free(body);
  mcp_web_expect(mcp_web_ask(&in.other, "POST", target, "", PING), " 202 ");
  mcp_web_deliver(&in.one);
  mcp_web_settle(&stream);
  assert_int_equal(mcp_web_times(&stream, "\"id\":77,\"error\":{\"code\":-32600"), 1);
  assert_int_equal(mcp_web_times(&stream, "\"jsonrpc\""), 1);
  mcp_web_disconnect(&stream);
  close_world(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_post_that_may_have_arrived_is_not_answered_with_its_id),
      cmocka_unit_test(a_post_that_was_not_sent_is_refused_with_its_id),
      cmocka_unit_test(a_post_that_waits_when_its_server_stops_may_arrive),
      cmocka_unit_test(a_post_that_the_stream_has_no_room_for_is_refused_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
