/* test_turn_lengths.c - frames with a Content-Length wait for a turn as lines do, and the end of input behind them, in the
 * middle of a frame, too. */
#include "rpc/rpc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdio.h>
#include <string.h>

#define MS ((uint64_t)1000000)
enum { WORK_MS = 20, TURN_MS = 30, FRAMES = 10 };

static uint64_t now_ns = MS;
static unsigned worked;

static uint64_t false_clock(void *ctx) {
  (void)ctx;
  return now_ns;
}

static void work(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  now_ns += WORK_MS * MS;
  worked++;
  idem_reply_json(request, "1", 1);
}

static void on_late(void *user) { (void)user; }

static size_t put_frames(char *out, size_t size) {
  size_t len = 0;
  for (unsigned i = 0; i < FRAMES; i++) {
    char body[64];
    int body_len =
        snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"work\"}", i);
    len += (size_t)snprintf(out + len, size - len, "Content-Length: %d\r\n\r\n%s", body_len, body);
  }
  return len + (size_t)snprintf(out + len, size - len, "Content-Length: 9\r\n\r\n{");
}

static size_t count(const char *text, const char *what) {
  size_t found = 0;
  for (; (text = strstr(text, what)); text++) found++;
  return found;
}

static void take_output(idem_conn *conn, char *out) {
  idem_chunk chunk;
  size_t len = 0;
  while (idem_conn_next_chunk(conn, &chunk)) {
    memcpy(out + len, chunk.data, chunk.len);
    len += chunk.len;
    idem_chunk_free(&chunk);
  }
  out[len] = '\0';
}

static void what_comes_before_the_end_is_answered_first(void **state) {
  (void)state;
  char text[4096], out[8192];
  idem_pool *pool;
  idem_router *router;
  idem_conn *conn;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_CONTENT_LENGTH;
  assert_int_equal(idem_pool_new(NULL, &pool), IDEM_OK);
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "work", work, NULL), IDEM_OK);
  idem__pool_set_turns(pool, TURN_MS * MS, false_clock, on_late, NULL);
  idem_conn_opts opts = {.router = router, .policy = &policy, .pool = pool, .now_ns = false_clock};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, text, put_frames(text, sizeof text)), IDEM_OK);
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_OK);
  assert_int_equal(worked, 2);
  assert_false(idem_conn_done(conn));
  while (idem__pool_run_late(pool)) continue;
  take_output(conn, out);
  assert_int_equal(count(out, "\"result\":1"), FRAMES);
  assert_int_equal(count(out, "-32700"), 1);
  assert_true(strstr(out, "-32700") > strstr(out, "\"id\":9"));
  assert_true(idem_conn_done(conn));
  idem_conn_free(conn);
  idem_router_free(router);
  idem_pool_free(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_comes_before_the_end_is_answered_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
