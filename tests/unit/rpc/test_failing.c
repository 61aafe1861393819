/* test_failing.c - a conn that cannot go on for want of memory ends the calls that wait on it, at once where it was entered,
 * else with its driver's next word, and whoever hears of that may free it. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 200000 };

typedef struct stage {
  fault_alloc memory;
  idem_router *router;
  idem_conn *conn;
  idem_request *kept;
  unsigned answers;
  bool frees; /* the conn, when its call ends */
} stage;

static void keep(idem_request *request, yyjson_val *params, void *user) {
  stage *s = user;
  (void)params;
  idem_request_keep(request);
  s->kept = request;
}

static void note_end(idem_conn *conn, const idem_response *response, void *user) {
  stage *s = user;
  assert_int_equal(response->status, IDEM_E_NOMEM);
  assert_int_not_equal(idem_call(conn, "again", NULL, NULL, note_end, s, NULL), IDEM_OK);
  s->answers++;
  if (!s->frees) return;
  idem_conn_free(conn);
  s->conn = NULL;
}

static void begin(stage *s) {
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n";
  *s = (stage){.conn = NULL};
  fault_alloc_init(&s->memory);
  assert_int_equal(idem_router_new(&(idem_router_opts){.alloc = &s->memory.alloc}, &s->router),
                   IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "keep", keep, s), IDEM_OK);
  idem_conn_opts opts = {.router = s->router, .alloc = &s->memory.alloc};
  assert_int_equal(idem_conn_new(&opts, &s->conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(s->conn, ask, sizeof ask - 1), IDEM_OK);
  assert_non_null(s->kept);
  for (int i = 0; i < 2; i++)
    assert_int_equal(idem_call(s->conn, "q", NULL, NULL, note_end, s, NULL), IDEM_OK);
}

static void end(stage *s) {
  if (s->kept) idem_request_drop(s->kept);
  idem_conn_free(s->conn);
  idem_router_free(s->router);
  assert_int_equal(s->answers, 2);
  fault_alloc_assert_clean(&s->memory);
}

/* There is no memory for a message, or for an answer, of which this is a part. */
static char *large_text(void) {
  char *text = malloc(LARGE);
  assert_non_null(text);
  memset(text, '1', LARGE);
  return text;
}

static void feed_without_memory(stage *s) {
  char *text = large_text();
  fault_alloc_fail_from(&s->memory, 1);
  assert_int_equal(idem_conn_feed(s->conn, text, LARGE), s->frees ? IDEM_E_CLOSED : IDEM_E_NOMEM);
  fault_alloc_fail_in(&s->memory, 0);
  free(text);
}

static void reply_without_memory(stage *s) {
  idem_chunk chunk; /* while it is out, even the shortest answer needs memory */
  char *text = large_text();
  assert_true(idem_conn_next_chunk(s->conn, &chunk));
  fault_alloc_fail_from(&s->memory, 1);
  assert_int_not_equal(idem_reply_json(s->kept, text, LARGE), IDEM_OK);
  fault_alloc_fail_in(&s->memory, 0);
  s->kept = NULL;
  idem_chunk_free(&chunk);
  free(text);
  assert_int_equal(s->answers, 0);
  assert_true(idem_conn_done(s->conn));
}

static void calls_end_when_there_is_no_memory_for_a_message(void **state) {
  (void)state;
  stage s;
  begin(&s);
  feed_without_memory(&s);
  assert_int_equal(s.answers, 2);
  assert_true(idem_conn_done(s.conn));
  assert_int_equal(idem_conn_deadline(s.conn), UINT64_MAX);
  end(&s);
}

static void who_hears_of_it_may_free_the_conn(void **state) {
  (void)state;
  stage s;
  begin(&s);
  s.frees = true;
  feed_without_memory(&s);
  end(&s);
}

static void calls_end_with_expire_where_a_late_reply_failed(void **state) {
  (void)state;
  stage s;
  begin(&s);
  reply_without_memory(&s);
  assert_int_equal(idem_conn_deadline(s.conn), 0);
  assert_int_equal(idem_conn_expire(s.conn), IDEM_E_NOMEM);
  assert_int_equal(s.answers, 2);
  assert_int_equal(idem_conn_deadline(s.conn), UINT64_MAX);
  end(&s);
}

static void or_with_close(void **state) {
  (void)state;
  stage s;
  begin(&s);
  reply_without_memory(&s);
  idem_conn_close(s.conn);
  assert_int_equal(s.answers, 2);
  end(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_end_when_there_is_no_memory_for_a_message),
      cmocka_unit_test(who_hears_of_it_may_free_the_conn),
      cmocka_unit_test(calls_end_with_expire_where_a_late_reply_failed),
      cmocka_unit_test(or_with_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
