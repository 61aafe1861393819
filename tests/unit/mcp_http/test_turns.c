/* test_turns.c - messages that came, or may begin, when their loop's turn is over: they have the next one, and are refused with
 * their id where there is none. */
#include "http/endpoint.h"
#include "rpc/rpc.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"

static uint64_t never(void *ctx) {
  (void)ctx;
  return 0; /* so that a turn is never over for who is in line */
}

static void on_late(void *user) { ++*(unsigned *)user; }

/* A turn that was over long ago. */
static idem_pool *begin_turns(mcp_web *web, unsigned *late) {
  idem_pool *pool = web->endpoint->rpc->pool;
  *late = 0;
  idem__pool_set_turns(pool, 1, never, on_late, late);
  idem__pool_new_turn(pool);
  assert_false(idem__pool_turn_over(pool, 1));
  return pool;
}

/* What many waited for comes for all of them at once. */
static void what_has_its_session_waits_for_a_turn(void **state) {
  static const later_store_opts later = {.seed = 3};
  mcp_web web;
  mcp_web_conn conn;
  char session[64];
  unsigned late;
  (void)state;
  mcp_web_open(&web, &(mcp_web_opts){.later = &later});
  mcp_web_hello(&web, "", session);
  later_store_hold(web.later, true);
  mcp_web_connect(&web, &conn);
  mcp_web_send(&conn, "POST", "/mcp", session, PING("1"));
  idem_pool *pool = begin_turns(&web, &late);
  later_store_hold(web.later, false);
  while (later_store_pump(web.later)) mcp_web_deliver(&web);
  mcp_web_settle(&conn);
  assert_int_equal(late, 1);
  assert_int_equal(mcp_web_times(&conn, "\"id\":1,"), 0);
  assert_false(idem__pool_run_late(pool));
  mcp_web_settle(&conn);
  assert_int_equal(mcp_web_times(&conn, "\"id\":1,\"result\":{}"), 1);
  mcp_web_disconnect(&conn);
  mcp_web_close(&web);
}

/* ------------------------------------------------------------------ 2024-11-05 */

typedef struct world {
  mcp_web web;
  mcp_web_conn stream;
  char target[128];
  idem_pool *pool;
  unsigned late;
} world;

static void open_stream(world *in) {
  mcp_web_open(&in->web, &(mcp_web_opts){.store = NULL});
  mcp_web_connect(&in->web, &in->stream);
  mcp_web_open_sse(&in->stream, "", in->target);
  in->pool = begin_turns(&in->web, &in->late);
}

static void post(world *in, const char *body) {
  mcp_web_expect(mcp_web_ask(&in->web, "POST", in->target, "", body), " 202 ");
  mcp_web_settle(&in->stream);
}

static void posts_to_a_stream_wait_for_a_turn(void **state) {
  world in;
  (void)state;
  open_stream(&in);
  post(&in, PING("1"));
  post(&in, PING("2"));
  assert_int_equal(in.late, 1);
  assert_int_equal(mcp_web_times(&in.stream, "\"jsonrpc\""), 0);
  assert_false(idem__pool_run_late(in.pool));
  mcp_web_settle(&in.stream);
  const char *first = strstr(in.stream.output, "\"id\":1,\"result\"");
  assert_non_null(first);
  assert_non_null(strstr(first, "\"id\":2,\"result\""));
  assert_int_equal(mcp_web_times(&in.stream, "\"jsonrpc\""), 2);
  mcp_web_disconnect(&in.stream);
  mcp_web_close(&in.web);
}

static void posts_that_wait_are_refused_when_the_server_goes(void **state) {
  world in;
  (void)state;
  open_stream(&in);
  post(&in, PING("1"));
  post(&in, PING("2"));
  idem__http_conn_abort(in.stream.conn, in.web.now_ms);
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":1,\"error\""), 1);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":2,\"error\""), 1);
  mcp_web_disconnect(&in.stream);
  mcp_web_close(&in.web);
}

static void posts_that_wait_go_with_their_stream(void **state) {
  world in;
  (void)state;
  open_stream(&in);
  post(&in, PING("1"));
  mcp_web_disconnect(&in.stream);
  assert_false(idem__pool_run_late(in.pool));
  mcp_web_close(&in.web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_has_its_session_waits_for_a_turn),
      cmocka_unit_test(posts_to_a_stream_wait_for_a_turn),
      cmocka_unit_test(posts_that_wait_are_refused_when_the_server_goes),
      cmocka_unit_test(posts_that_wait_go_with_their_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
