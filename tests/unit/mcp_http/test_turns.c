/* test_turns.c - messages that came, or may begin, when their loop's turn is over: they have the next one, and are refused with
 * their id where there is none. */
#include "http/conn.h"
#include "http/endpoint.h"
#include "rpc/rpc.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"

static unsigned asked;
static uint64_t one_each(void *ctx) {
  (void)ctx;
  return asked++ ? UINT64_MAX : 0; /* a turn is over when one of those in line has had it */
}

static bool run_turn(idem_pool *pool) {
  asked = 0;
  return idem__pool_run_late(pool);
}

static void run_all(idem_pool *pool) {
  while (run_turn(pool)) {
  }
}

static void on_late(void *user) { ++*(unsigned *)user; }

/* A turn that was over long ago. */
static idem_pool *begin_turns(mcp_web *web, unsigned *late) {
  idem_pool *pool = web->endpoint->rpc->pool;
  *late = 0;
  idem__pool_set_turns(pool, 1, one_each, on_late, late);
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
  run_all(pool);
  mcp_web_settle(&conn);
  assert_int_equal(mcp_web_times(&conn, "\"id\":1,\"result\":{}"), 1);
  mcp_web_disconnect(&conn);
  mcp_web_close(&web);
}

/* ---------------------------------------------------------------------- batches */

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-03-26\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define CALL(id)                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"slow\"}}"
#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}"

/* A batch, of which each element has a turn of its own; the first has had it. */
static idem_pool *post_batch(mcp_web *web, mcp_web_conn *conn, const char *headers,
                             const char *body) {
  char session[64], all[256];
  static unsigned late;
  mcp_web_open(web, &(mcp_web_opts){.store = NULL});
  mcp_web_session(mcp_web_ask(web, "POST", "/mcp", "", HELLO), session);
  snprintf(all, sizeof all, "%sAccept: application/json, text/event-stream\r\n%s", session,
           headers);
  idem_pool *pool = begin_turns(web, &late);
  mcp_web_connect(web, conn);
  mcp_web_send(conn, "POST", "/mcp", all, body);
  assert_true(run_turn(pool));
  mcp_web_settle(conn);
  assert_int_equal(mcp_web_times(conn, "HTTP/1.1"), 0);
  return pool;
}

static void a_batch_has_no_key_in_any_turn(void **state) {
  mcp_web web;
  mcp_web_conn conn;
  (void)state;
  idem_pool *pool = post_batch(&web, &conn, "Idempotency-Key: abc\r\n",
                               "[" CALL("2") "," CALL("3") "," CALL("4") "]");
  run_all(pool);
  mcp_web_settle(&conn);
  assert_int_equal(mcp_web_times(&conn, "key-on-batch"), 3);
  mcp_web_disconnect(&conn);
  mcp_web_close(&web);
}

/* Its session outlives its client; the batch ends all the same. */
static void a_batch_without_answers_ends_without_its_client(void **state) {
  mcp_web web;
  mcp_web_conn conn;
  (void)state;
  idem_pool *pool = post_batch(&web, &conn, "", "[" NOTE "," NOTE "," NOTE "]");
  mcp_web_disconnect(&conn);
  assert_true(idem__http_rpc_works_on(web.endpoint->rpc));
  run_all(pool);
  assert_false(idem__http_rpc_works_on(web.endpoint->rpc));
  mcp_web_close(&web);
}

/* Some of it was done: 503 would have its client do all of it again. */
static void a_batch_that_was_begun_keeps_its_status(void **state) {
  mcp_web web;
  mcp_web_conn conn;
  (void)state;
  post_batch(&web, &conn, "", "[" PING("2") "," PING("3") "," PING("4") "]");
  idem__http_conn_abort(conn.conn, web.now_ms);
  mcp_web_settle(&conn);
  assert_int_equal(mcp_web_times(&conn, "HTTP/1.1 200 "), 1);
  assert_int_equal(mcp_web_times(&conn, "\"id\":2,\"result\""), 1);
  assert_int_equal(mcp_web_times(&conn, "\"id\":3,\"error\""), 1);
  assert_int_equal(mcp_web_times(&conn, "\"id\":4,\"error\""), 1);
  assert_int_equal(mcp_web_times(&conn, "Retry-After"), 0);
  mcp_web_disconnect(&conn);
  mcp_web_close(&web);
}

static idem__http_serving *first_serving(const mcp_web *web) {
  return IDEM_CONTAINER(web->endpoint->rpc->active.next, idem__http_serving, link);
}

/* To send much and go would be a way around the limit of a client. */
static void a_batch_stays_its_clients_who_has_gone(void **state) {
  mcp_web web;
  mcp_web_conn conn;
  char session[64], all[256];
  unsigned late;
  uint32_t retry_s;
  idem__limiter *limiter;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  (void)state;
  assert_int_equal(idem__limiter_new(&alloc, 4, 3600, 0, 1, &limiter), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.limiter = limiter});
  mcp_web_session(mcp_web_ask(&web, "POST", "/mcp", "", HELLO), session); /* one */
  snprintf(all, sizeof all, "%sAccept: application/json, text/event-stream\r\n", session);
  idem_pool *pool = begin_turns(&web, &late);
  mcp_web_connect(&web, &conn);
  mcp_web_send(&conn, "POST", "/mcp", all,
               "[" PING("2") "," PING("3") "," PING("4") "," PING("5") "," PING("6") "]");
  assert_true(run_turn(pool)); /* two */
  const idem__ip who = *idem__http_conn_client(conn.conn);
  const idem__http_serving *serving = first_serving(&web);
  char peer[64];
  snprintf(peer, sizeof peer, "%s", idem_conn_peer(serving->conn));
  mcp_web_disconnect(&conn);
  assert_memory_equal(idem__conn_address(serving->conn), &who, sizeof who);
  assert_string_equal(idem_conn_peer(serving->conn), peer);
  run_all(pool);
  assert_false(idem__limiter_take(limiter, &who, web.now_ms, &retry_s));
  mcp_web_close(&web);
  idem__limiter_free(limiter);
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
  run_all(in.pool);
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
  run_all(in.pool);
  mcp_web_close(&in.web);
}

/* A ping of so many bytes. */
static char *large(unsigned id, size_t bytes) {
  char *text = malloc(bytes + 1);
  assert_non_null(text);
  int head = snprintf(text, bytes, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"", id);
  memset(text + head, ' ', bytes - (size_t)head);
  text[bytes - 1] = '}';
  text[bytes] = '\0';
  return text;
}

/* What waits is begun in its order, a message each turn, however much comes: past a bound it is refused as it comes. */
static void past_a_bound_posts_to_a_stream_are_refused_with_their_id(void **state) {
  world in;
  char *first = large(1, (size_t)5 << 20), *second = large(2, (size_t)5 << 20);
  (void)state;
  open_stream(&in);
  post(&in, first);
  for (unsigned i = 0; i < 2; i++) {
    char *answer = mcp_web_ask(&in.web, "POST", in.target, "", second);
    assert_non_null(strstr(answer, " 503 "));
    assert_non_null(strstr(answer, "\r\nRetry-After: 1\r\n"));
    mcp_web_expect(answer, "\"id\":2,\"error\":{\"code\":-32600");
  }
  post(&in, PING("3")); /* there is room for it */
  assert_int_equal(mcp_web_times(&in.stream, "\"jsonrpc\""), 0);
  run_all(in.pool);
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "\"jsonrpc\""), 2);
  post(&in, second);
  run_all(in.pool);
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":2,\"result\""), 1);
  mcp_web_disconnect(&in.stream);
  mcp_web_close(&in.web);
  free(first);
  free(second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_has_its_session_waits_for_a_turn),
      cmocka_unit_test(a_batch_has_no_key_in_any_turn),
      cmocka_unit_test(a_batch_without_answers_ends_without_its_client),
      cmocka_unit_test(a_batch_that_was_begun_keeps_its_status),
      cmocka_unit_test(a_batch_stays_its_clients_who_has_gone),
      cmocka_unit_test(posts_to_a_stream_wait_for_a_turn),
      cmocka_unit_test(past_a_bound_posts_to_a_stream_are_refused_with_their_id),
      cmocka_unit_test(posts_that_wait_are_refused_when_the_server_goes),
      cmocka_unit_test(posts_that_wait_go_with_their_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
