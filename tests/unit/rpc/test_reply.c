/* test_reply.c - promises to handlers and drivers that never show on the wire alone: a result that
 * could not be built, and a driver that ends the conn while a call is being sent. */
#include "support/unit.h"

#include <idem/rpc.h>

typedef struct fixture {
  idem_router *router;
  idem_conn *conn;
  idem_status replied;
  idem_status ended;
  unsigned ended_count;
} fixture;

static void reply_nothing(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  fixture *self = user;
  self->replied = idem_reply_mut(request, NULL);
}

static void close_at_once(idem_conn *conn, void *user) {
  (void)user;
  idem_conn_close(conn);
}

static void on_ended(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  fixture *self = user;
  self->ended = response->status;
  self->ended_count++;
}

static void open_fixture(fixture *self, void (*on_output)(idem_conn *conn, void *user)) {
  *self = (fixture){0};
  assert_int_equal(idem_router_new(NULL, &self->router), IDEM_OK);
  assert_int_equal(idem_router_method(self->router, "nothing", reply_nothing, self), IDEM_OK);
  idem_conn_opts opts = {.router = self->router, .on_output = on_output, .user = self};
  assert_int_equal(idem_conn_new(&opts, &self->conn), IDEM_OK);
}

static void close_fixture(fixture *self) {
  idem_conn_free(self->conn);
  idem_router_free(self->router);
}

static void a_result_that_could_not_be_built_is_an_error_and_not_null(void **state) {
  (void)state;
  static const char question[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nothing\"}\n";
  static const char answer[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Internal error\"}}\n";
  fixture self;
  open_fixture(&self, NULL);
  assert_int_equal(idem_conn_feed(self.conn, question, sizeof question - 1), IDEM_OK);
  assert_int_equal(self.replied, IDEM_E_NOMEM);
  idem_chunk chunk;
  assert_true(idem_conn_next_chunk(self.conn, &chunk));
  assert_int_equal(chunk.len, sizeof answer - 1);
  assert_memory_equal(chunk.data, answer, chunk.len);
  idem_chunk_free(&chunk);
  close_fixture(&self);
}

static void a_call_survives_a_driver_that_closes_while_it_is_sent(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, close_at_once);
  uint64_t id = 0;
  assert_int_equal(idem_call(self.conn, "ask", NULL, NULL, on_ended, &self, &id), IDEM_OK);
  assert_int_equal(id, 1);
  assert_int_equal(self.ended_count, 1);
  assert_int_equal(self.ended, IDEM_E_CLOSED);
  close_fixture(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_result_that_could_not_be_built_is_an_error_and_not_null),
      cmocka_unit_test(a_call_survives_a_driver_that_closes_while_it_is_sent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
