/* test_lifetime.c - who may free what, and when: conns freed inside their own callbacks, replies that
 * come too late or twice, chunks and pools that outlive what they came from. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/mcp.h>
#include <stdlib.h>

typedef struct stage {
  fault_alloc memory;
  idem_router *router;
  idem_conn *conn;
  idem_request *kept;
  idem_status inner; /* what a call inside a callback returned */
  unsigned outputs;  /* how often on_output ran */
  unsigned responses;
  unsigned cancels;
  idem_status response_status;
  uint64_t now_ms;
} stage;

static uint64_t now_ns(void *ctx) { return ((stage *)ctx)->now_ms * 1000000u; }

static void on_output(idem_conn *conn, void *user) {
  (void)conn;
  ((stage *)user)->outputs++;
}

static void free_in_handler(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_conn_free(idem_request_conn(request));
  idem_reply_json(request, "1", 1);
}

static void keep_and_free(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  stage *s = user;
  idem_request_keep(request);
  s->kept = request;
  idem_conn_free(idem_request_conn(request));
}

static void keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  idem_request_keep(request);
  ((stage *)user)->kept = request;
}

static void feed_in_handler(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  stage *s = user;
  idem_conn *conn = idem_request_conn(request);
  s->inner = idem_conn_feed(conn, "x\n", 2);
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_E_STATE);
  assert_int_equal(idem_conn_expire(conn), IDEM_E_STATE);
  idem_reply(request, NULL);
}

static void abort_in_handler(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  stage *s = user;
  idem_conn_abort(idem_request_conn(request));
  s->inner = idem_reply_json(request, "1", 1);
}

static void abort_and_keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  idem_conn_abort(idem_request_conn(request));
  idem_request_keep(request);
  ((stage *)user)->kept = request;
}

static void free_in_notification(idem_conn *conn, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_conn_free(conn);
}

static void free_in_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)response;
  ((stage *)user)->responses++;
  idem_conn_free(conn);
}

static void count_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  stage *s = user;
  s->responses++;
  s->response_status = response->status;
}

static stage *open_stage(const idem_policy *policy) {
  stage *s = calloc(1, sizeof *s);
  assert_non_null(s);
  fault_alloc_init(&s->memory);
  s->now_ms = 1;
  idem_router_opts opts = {.alloc = &s->memory.alloc};
  assert_int_equal(idem_router_new(&opts, &s->router), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "free", free_in_handler, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "keep_and_free", keep_and_free, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "keep", keep, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "feed", feed_in_handler, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "abort", abort_in_handler, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "abort_and_keep", abort_and_keep, s), IDEM_OK);
  assert_int_equal(idem_router_notification(s->router, "free", free_in_notification, s), IDEM_OK);
  idem_conn_opts conn_opts = {.router = s->router,
                              .policy = policy,
                              .alloc = &s->memory.alloc,
                              .now_ns = now_ns,
                              .clock_ctx = s,
                              .on_output = on_output,
                              .user = s,
                              .peer = "stage"};
  assert_int_equal(idem_conn_new(&conn_opts, &s->conn), IDEM_OK);
  return s;
}

static void close_stage(stage *s) {
  idem_conn_free(s->conn);
  idem_router_free(s->router);
  fault_alloc_assert_clean(&s->memory);
  free(s);
}

static idem_status feed(stage *s, const char *text) {
  return idem_conn_feed(s->conn, text, strlen(text));
}

static void expect_output(stage *s, const char *wanted) {
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(s->conn, &chunk));
  assert_int_equal(chunk.len, strlen(wanted));
  assert_memory_equal(chunk.data, wanted, chunk.len);
  idem_chunk_free(&chunk);
}

#define REQUEST(method) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\"}\n"

static void a_conn_freed_in_its_handler_goes_when_feed_returns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, REQUEST("free") REQUEST("keep")), IDEM_E_CLOSED);
  s->conn = NULL;
  assert_null(s->kept);
  close_stage(s);
}

static void a_conn_freed_in_a_batch_drops_the_rest_of_it(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"free\"},"
                           "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"keep\"}]\n"),
                   IDEM_E_CLOSED);
  s->conn = NULL;
  assert_null(s->kept);
  close_stage(s);
}

static void a_conn_freed_in_a_notification_goes_when_feed_returns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, "{\"jsonrpc\":\"2.0\",\"method\":\"free\"}\n" REQUEST("keep")),
                   IDEM_E_CLOSED);
  s->conn = NULL;
  assert_null(s->kept);
  close_stage(s);
}

static void a_request_outlives_the_conn_its_handler_freed(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, REQUEST("keep_and_free")), IDEM_E_CLOSED);
  s->conn = NULL;
  assert_non_null(s->kept);
  assert_null(idem_request_conn(s->kept));
  assert_true(idem_request_cancelled(s->kept));
  size_t len;
  assert_string_equal(idem_request_method(s->kept, &len), "keep_and_free");
  assert_non_null(idem_request_doc(s->kept));
  assert_int_equal(idem_reply_json(s->kept, "1", 1), IDEM_E_CLOSED);
  close_stage(s);
}

static void every_kind_of_late_reply_is_a_quiet_no_op(void **state) {
  (void)state;
  for (int kind = 0; kind < 8; kind++) {
    stage *s = open_stage(NULL);
    assert_int_equal(feed(s, REQUEST("keep")), IDEM_OK);
    idem_conn_free(s->conn);
    s->conn = NULL;
    idem_param_fault fault = {.param = "p", .expected = "q"};
    idem_status status = IDEM_E_CLOSED;
    switch (kind) {
    case 0: status = idem_reply(s->kept, NULL); break;
    case 1: status = idem_reply_mut(s->kept, NULL); break;
    case 2: status = idem_reply_error(s->kept, -32050, "m", NULL); break;
    case 3: status = idem_reply_error_json(s->kept, 1, "m", "[]", 2); break;
    case 4: status = idem_reply_error_text(s->kept, 1, "m", "d"); break;
    case 5: status = idem_reply_invalid_params(s->kept, &fault); break;
    case 6: status = idem_reply_fault(s->kept, IDEM_FAULT_CAPABILITY, "x"); break;
    default: idem_request_drop(s->kept); break;
    }
    assert_int_equal(status, IDEM_E_CLOSED);
    close_stage(s);
  }
}

static void a_second_reply_to_a_kept_request_is_refused(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, REQUEST("keep")), IDEM_OK);
  assert_int_equal(idem_reply_json(s->kept, "1", 1), IDEM_OK);
  assert_int_equal(idem_reply_json(s->kept, "2", 1), IDEM_E_STATE);
  assert_int_equal(idem_reply_error(s->kept, 1, "m", NULL), IDEM_E_STATE);
  idem_request_drop(s->kept);
  expect_output(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n");
  idem_chunk none;
  assert_false(idem_conn_next_chunk(s->conn, &none));
  close_stage(s);
}

static void entry_points_refuse_to_be_called_from_callbacks(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(feed(s, REQUEST("feed")), IDEM_OK);
  assert_int_equal(s->inner, IDEM_E_STATE);
  expect_output(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n");
  close_stage(s);
}

static void a_handler_that_aborts_its_conn_may_still_answer(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  feed(s, REQUEST("abort"));
  assert_int_equal(s->inner, IDEM_OK);
  expect_output(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n");
  assert_true(idem_conn_done(s->conn));
  close_stage(s);
}

static void a_handler_that_aborts_its_conn_and_keeps_is_answered_for(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  feed(s, REQUEST("abort_and_keep"));
  expect_output(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,"
                   "\"message\":\"Internal error\"}}\n");
  assert_true(idem_conn_done(s->conn));
  assert_int_equal(idem_reply_json(s->kept, "1", 1), IDEM_E_STATE);
  close_stage(s);
}

static void a_conn_freed_in_a_response_goes_when_feed_returns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(idem_call(s->conn, "m", NULL, NULL, free_in_response, s, NULL), IDEM_OK);
  assert_int_equal(idem_call(s->conn, "m", NULL, NULL, count_response, s, NULL), IDEM_OK);
  assert_int_equal(s->responses, 0);
  assert_int_equal(feed(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n"
                           "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":1}\n"),
                   IDEM_E_CLOSED);
  s->conn = NULL;
  assert_int_equal(s->responses, 2);
  assert_int_equal(s->response_status, IDEM_E_CLOSED);
  close_stage(s);
}

static void a_conn_freed_while_its_calls_end_is_freed_once(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(idem_call(s->conn, "m", NULL, NULL, free_in_response, s, NULL), IDEM_OK);
  }
  idem_conn_free(s->conn);
  s->conn = NULL;
  assert_int_equal(s->responses, 3);
  close_stage(s);
}

static void a_conn_freed_in_a_cancelled_call_goes_when_cancel_returns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  uint64_t id;
  assert_int_equal(idem_call(s->conn, "m", NULL, NULL, free_in_response, s, &id), IDEM_OK);
  assert_int_equal(idem_cancel(s->conn, id), IDEM_OK);
  s->conn = NULL;
  assert_int_equal(s->responses, 1);
  close_stage(s);
}

static void a_conn_freed_when_a_call_times_out_goes_when_expire_returns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  idem_call_opts opts = {.timeout_ms = 10};
  assert_int_equal(idem_call(s->conn, "m", NULL, &opts, free_in_response, s, NULL), IDEM_OK);
  s->now_ms = 100;
  assert_int_equal(idem_conn_expire(s->conn), IDEM_E_CLOSED);
  s->conn = NULL;
  assert_int_equal(s->responses, 1);
  close_stage(s);
}

static void call_again(idem_conn *conn, const idem_response *response, void *user) {
  stage *s = user;
  s->response_status = response->status;
  if (++s->responses > 5) return;
  s->inner = idem_call(conn, "again", NULL, NULL, call_again, s, NULL);
}

static void a_call_may_be_made_in_a_response(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_int_equal(idem_call(s->conn, "m", NULL, NULL, call_again, s, NULL), IDEM_OK);
  assert_int_equal(feed(s, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n"), IDEM_OK);
  assert_int_equal(s->inner, IDEM_OK);
  assert_int_equal(idem_conn_pending_calls(s->conn), 1);
  idem_conn_close(s->conn);
  assert_int_equal(s->responses, 2);
  assert_int_equal(s->inner, IDEM_E_CLOSED);
  close_stage(s);
}

static void chunks_survive_the_conn_and_its_pool(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  idem_pool *pool;
  assert_int_equal(idem_pool_new(&s->memory.alloc, &pool), IDEM_OK);
  idem_conn *conn;
  idem_conn_opts opts = {.router = s->router, .alloc = &s->memory.alloc, .pool = pool, .user = s};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  static const char text[] = REQUEST("keep") "x\n";
  assert_int_equal(idem_conn_feed(conn, text, sizeof text - 1), IDEM_OK);
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(conn, &chunk));
  assert_true(idem_conn_queued(conn) == chunk.len);
  idem_pool_free(pool);
  idem_conn_free(conn);
  assert_memory_equal(chunk.data, "{\"jsonrpc\":\"2.0\",\"id\":null", 26);
  assert_int_equal(idem_reply(s->kept, NULL), IDEM_E_CLOSED);
  idem_chunk_free(&chunk);
  idem_chunk_free(&chunk); /* a chunk that was freed is empty */
  close_stage(s);
}

static void a_pool_is_shared_by_many_conns(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  idem_pool *pool;
  assert_int_equal(idem_pool_new(&s->memory.alloc, &pool), IDEM_OK);
  for (int i = 0; i < 100; i++) {
    idem_conn *conn;
    idem_conn_opts opts = {.router = s->router, .alloc = &s->memory.alloc, .pool = pool};
    assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
    assert_int_equal(idem_conn_feed(conn, REQUEST("nope"), strlen(REQUEST("nope"))), IDEM_OK);
    idem_conn_free(conn);
    if (i == 50) idem_pool_trim(pool);
  }
  idem_pool_free(pool);
  close_stage(s);
}

static void on_output_tells_of_what_comes_between_feeds(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_LSP);
  policy.framing = IDEM_FRAMING_LINE;
  policy.concurrency = 0;
  stage *s = open_stage(&policy);
  feed(s, REQUEST("nope"));
  assert_int_equal(s->outputs, 0); /* the caller of feed looks anyway */
  idem_chunk chunk;
  while (idem_conn_next_chunk(s->conn, &chunk)) idem_chunk_free(&chunk);
  feed(s, REQUEST("keep"));
  idem_reply_json(s->kept, "1", 1);
  assert_int_equal(s->outputs, 1);
  while (idem_conn_next_chunk(s->conn, &chunk)) idem_chunk_free(&chunk);
  uint64_t id;
  assert_int_equal(idem_call(s->conn, "m", NULL, NULL, count_response, s, &id), IDEM_OK);
  assert_int_equal(s->outputs, 2);
  while (idem_conn_next_chunk(s->conn, &chunk)) idem_chunk_free(&chunk);
  assert_int_equal(idem_cancel(s->conn, id), IDEM_OK);
  assert_int_equal(s->outputs, 3);
  while (idem_conn_next_chunk(s->conn, &chunk)) idem_chunk_free(&chunk);
  feed(s, REQUEST("keep"));
  idem_conn_abort(s->conn);
  assert_true(s->outputs >= 4);
  idem_request_drop(s->kept);
  close_stage(s);
}

static void count_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)request;
  (void)reason;
  ((stage *)user)->cancels++;
}

static void a_request_is_cancelled_at_most_once(void **state) {
  (void)state;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.request_ms = 10;
  stage *s = open_stage(&policy);
  feed(s, REQUEST("keep"));
  idem_request_on_cancel(s->kept, count_cancel, s);
  assert_false(idem_request_cancelled(s->kept));
  s->now_ms = 100;
  assert_int_equal(idem_conn_expire(s->conn), IDEM_OK);
  assert_true(idem_request_cancelled(s->kept));
  idem_conn_abort(s->conn);
  idem_conn_free(s->conn);
  s->conn = NULL;
  assert_int_equal(s->cancels, 1);
  idem_request_drop(s->kept);
  close_stage(s);
}

static void a_conn_and_a_request_can_be_looked_at(void **state) {
  (void)state;
  stage *s = open_stage(NULL);
  assert_ptr_equal(idem_conn_user(s->conn), s);
  assert_string_equal(idem_conn_peer(s->conn), "stage");
  assert_int_equal(idem_conn_policy(s->conn)->limits.depth, 512);
  assert_int_equal(
      feed(s, "{\"jsonrpc\":\"2.0\",\"id\":1.50,\"method\":\"keep\",\"params\":[7]}\n"), IDEM_OK);
  size_t len;
  assert_memory_equal(idem_request_id(s->kept, &len), "1.50", 4);
  assert_int_equal(len, 4);
  assert_memory_equal(idem_request_method(s->kept, &len), "keep", 4);
  assert_int_equal(len, 4);
  assert_ptr_equal(idem_request_conn(s->kept), s->conn);
  assert_int_equal(yyjson_get_int(yyjson_arr_get(idem_request_params(s->kept), 0)), 7);
  assert_int_equal(idem_conn_in_flight(s->conn), 1);
  assert_int_equal(idem_reply(s->kept, idem_request_params(s->kept)), IDEM_OK);
  assert_int_equal(idem_conn_in_flight(s->conn), 0);
  close_stage(s);
}

static void freeing_nothing_is_fine(void **state) {
  (void)state;
  idem_conn_free(NULL);
  idem_router_free(NULL);
  idem_pool_free(NULL);
  idem_chunk empty = {0};
  idem_chunk_free(&empty);
  idem_chunk_free(NULL);
}

static void a_conn_without_a_router_or_clock_answers(void **state) {
  (void)state;
  idem_conn *conn;
  assert_int_equal(idem_conn_new(&(idem_conn_opts){0}, &conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, REQUEST("nope"), strlen(REQUEST("nope"))), IDEM_OK);
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(conn, &chunk));
  idem_chunk_free(&chunk);
  assert_int_equal(idem_conn_feed(conn, "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n", 31), IDEM_OK);
  assert_false(idem_conn_next_chunk(conn, &chunk));
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(conn, "x", 1), IDEM_E_CLOSED);
  assert_true(idem_conn_done(conn));
  idem_conn_free(conn);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_conn_freed_in_its_handler_goes_when_feed_returns),
      cmocka_unit_test(a_conn_freed_in_a_batch_drops_the_rest_of_it),
      cmocka_unit_test(a_conn_freed_in_a_notification_goes_when_feed_returns),
      cmocka_unit_test(a_request_outlives_the_conn_its_handler_freed),
      cmocka_unit_test(every_kind_of_late_reply_is_a_quiet_no_op),
      cmocka_unit_test(a_second_reply_to_a_kept_request_is_refused),
      cmocka_unit_test(entry_points_refuse_to_be_called_from_callbacks),
      cmocka_unit_test(a_handler_that_aborts_its_conn_may_still_answer),
      cmocka_unit_test(a_handler_that_aborts_its_conn_and_keeps_is_answered_for),
      cmocka_unit_test(a_conn_freed_in_a_response_goes_when_feed_returns),
      cmocka_unit_test(a_conn_freed_while_its_calls_end_is_freed_once),
      cmocka_unit_test(a_conn_freed_in_a_cancelled_call_goes_when_cancel_returns),
      cmocka_unit_test(a_conn_freed_when_a_call_times_out_goes_when_expire_returns),
      cmocka_unit_test(a_call_may_be_made_in_a_response),
      cmocka_unit_test(chunks_survive_the_conn_and_its_pool),
      cmocka_unit_test(a_pool_is_shared_by_many_conns),
      cmocka_unit_test(on_output_tells_of_what_comes_between_feeds),
      cmocka_unit_test(a_request_is_cancelled_at_most_once),
      cmocka_unit_test(a_conn_and_a_request_can_be_looked_at),
      cmocka_unit_test(freeing_nothing_is_fine),
      cmocka_unit_test(a_conn_without_a_router_or_clock_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
