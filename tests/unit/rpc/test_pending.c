/* test_pending.c - requests that are answered later: what they cost while they wait, and that none
 * of them disturbs another, in whatever order they end. */
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdlib.h>

#define MANY 600u

typedef struct stage {
  fault_alloc memory;
  idem_router *router;
  idem_pool *pool;
  idem_conn *conn;
  idem_request *kept[MANY];
  yyjson_val *params[MANY];
  size_t count;
  size_t answer_inside; /* a request that the handler of "inside" answers; SIZE_MAX: none */
} stage;

static void keep(idem_request *request, yyjson_val *params, void *user) {
  stage *s = user;
  assert_true(s->count < MANY);
  idem_request_keep(request);
  s->kept[s->count] = request;
  s->params[s->count++] = params;
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

/* The memory of the message in hand is in use while an older one's is given back. */
static void inside(idem_request *request, yyjson_val *params, void *user) {
  stage *s = user;
  idem_reply(s->kept[s->answer_inside], s->params[s->answer_inside]);
  s->kept[s->answer_inside] = NULL;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *text = yyjson_mut_strcpy(doc, yyjson_get_str(yyjson_arr_get(params, 0)));
  idem_reply_mut(request, text);
}

static stage *open_stage(void) {
  stage *s = calloc(1, sizeof *s);
  assert_non_null(s);
  fault_alloc_init(&s->memory);
  assert_int_equal(idem_router_new(&(idem_router_opts){.alloc = &s->memory.alloc}, &s->router),
                   IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "keep", keep, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "echo", echo, s), IDEM_OK);
  assert_int_equal(idem_router_method(s->router, "inside", inside, s), IDEM_OK);
  assert_int_equal(idem_pool_new(&s->memory.alloc, &s->pool), IDEM_OK);
  idem_conn_opts opts = {.router = s->router, .alloc = &s->memory.alloc, .pool = s->pool};
  assert_int_equal(idem_conn_new(&opts, &s->conn), IDEM_OK);
  return s;
}

static void close_stage(stage *s) {
  idem_conn_free(s->conn);
  idem_pool_free(s->pool);
  idem_router_free(s->router);
  fault_alloc_assert_clean(&s->memory);
  free(s);
}

static void ask(stage *s, const char *method, size_t id) {
  char line[160];
  int len =
      snprintf(line, sizeof line,
               "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"%s\",\"params\":[\"number %zu\"]}\n",
               id, method, id);
  assert_int_equal(idem_conn_feed(s->conn, line, (size_t)len), IDEM_OK);
}

/* The next answer is this one, and nothing else. */
static void expect(stage *s, size_t id, bool array) {
  char line[160];
  int len = snprintf(line, sizeof line,
                     "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"result\":%s\"number %zu\"%s}\n", id,
                     array ? "[" : "", id, array ? "]" : "");
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(s->conn, &chunk));
  assert_int_equal(chunk.len, len);
  assert_memory_equal(chunk.data, line, (size_t)len);
  idem_chunk_free(&chunk);
}

static void answer(stage *s, size_t i) {
  assert_int_equal(idem_reply(s->kept[i], s->params[i]), IDEM_OK);
  s->kept[i] = NULL;
  expect(s, i, true);
}

static void a_pending_request_costs_little_more_than_its_own_bytes(void **state) {
  (void)state;
  stage *s = open_stage();
  size_t before = s->memory.live_bytes;
  for (size_t i = 0; i < MANY; i++) ask(s, "keep", i);
  size_t each = (s->memory.live_bytes - before) / MANY;
  print_message("  %zu bytes each\n", each);
  assert_true(each < 1200);
  for (size_t i = 0; i < MANY; i++) answer(s, i);
  idem_pool_trim(s->pool);
  size_t left = s->memory.live_bytes - before;
  print_message("  %zu bytes stay\n", left);
  assert_true(left < 150000); /* 256 requests, and the table of ids */
  close_stage(s);
}

static void pending_requests_keep_what_they_were_asked_in_any_order(void **state) {
  (void)state;
  stage *s = open_stage();
  for (size_t i = 0; i < MANY; i++) {
    ask(s, "keep", i);
    ask(s, "echo", MANY + i); /* comes and goes between them */
    expect(s, MANY + i, true);
    if (i >= 5 && i % 3 == 0) answer(s, i - 5);
  }
  for (size_t i = MANY; i-- > 0;)
    if (s->kept[i] && i % 7) answer(s, i);
  for (size_t i = 0; i < MANY; i++)
    if (s->kept[i]) answer(s, i);
  close_stage(s);
}

static void an_answer_given_while_another_message_is_handled_leaves_it_alone(void **state) {
  (void)state;
  stage *s = open_stage();
  for (size_t i = 0; i < 64; i++) ask(s, "keep", i);
  for (size_t i = 64; i-- > 0;) {
    s->answer_inside = i;
    ask(s, "inside", 1000 + i);
    idem_chunk chunk;
    char both[256];
    int len = snprintf(both, sizeof both,
                       "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"result\":[\"number %zu\"]}\n"
                       "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"result\":\"number %zu\"}\n",
                       i, i, 1000 + i, 1000 + i);
    assert_true(idem_conn_next_chunk(s->conn, &chunk));
    assert_int_equal(chunk.len, len);
    assert_memory_equal(chunk.data, both, (size_t)len);
    idem_chunk_free(&chunk);
  }
  close_stage(s);
}

static void a_pool_can_be_trimmed_while_requests_wait(void **state) {
  (void)state;
  stage *s = open_stage();
  for (size_t i = 0; i < 40; i++) ask(s, "keep", i);
  idem_pool_trim(s->pool);
  for (size_t i = 0; i < 20; i++) answer(s, i);
  idem_pool_trim(s->pool);
  idem_pool_free(s->pool);
  s->pool = NULL;
  for (size_t i = 20; i < 40; i++) answer(s, i);
  close_stage(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pending_request_costs_little_more_than_its_own_bytes),
      cmocka_unit_test(pending_requests_keep_what_they_were_asked_in_any_order),
      cmocka_unit_test(an_answer_given_while_another_message_is_handled_leaves_it_alone),
      cmocka_unit_test(a_pool_can_be_trimmed_while_requests_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
