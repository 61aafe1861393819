/* test_trace.c - who looks at a pool sees every message of its conns, both ways, and nothing once it has stopped looking. */
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdio.h>

typedef struct notes {
  char text[4096];
  size_t len;
} notes;

static void note(const idem_traced *message, void *user) {
  notes *self = user;
  int len = snprintf(self->text + self->len, sizeof self->text - self->len, "%c%llu %s %.*s%s\n",
                     message->direction == IDEM_IN ? '>' : '<', (unsigned long long)message->conn,
                     message->peer, (int)message->len, message->text,
                     message->serves ? "" : " (a client)");
  assert_true(len > 0 && self->len + (size_t)len < sizeof self->text);
  self->len += (size_t)len;
}

static void answer_one(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_json(request, "1", 1);
}

typedef struct world {
  idem_pool *pool;
  idem_router *router;
  idem_conn *conns[3];
} world;

static idem_conn *open_conn(const world *self, const char *peer, const idem_router *router) {
  idem_conn *conn = NULL;
  idem_conn_opts opts = {.pool = self->pool, .router = router, .peer = peer};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  return conn;
}

static int set_up(void **state) {
  static world self;
  assert_int_equal(idem_pool_new(NULL, &self.pool), IDEM_OK);
  assert_int_equal(idem_router_new(NULL, &self.router), IDEM_OK);
  assert_int_equal(idem_router_method(self.router, "one", answer_one, NULL), IDEM_OK);
  self.conns[0] = open_conn(&self, "a", self.router);
  self.conns[1] = open_conn(&self, "b", self.router);
  self.conns[2] = open_conn(&self, "c", NULL);
  *state = &self;
  return 0;
}

static int tear_down(void **state) {
  world *self = *state;
  for (size_t i = 0; i < 3; i++) idem_conn_free(self->conns[i]);
  idem_router_free(self->router);
  idem_pool_free(self->pool);
  return 0;
}

static void say(idem_conn *conn, const char *line) {
  assert_int_equal(idem_conn_feed(conn, line, strlen(line)), IDEM_OK);
}

static void every_conn_of_the_pool_is_seen_both_ways(void **state) {
  world *self = *state;
  notes seen = {.len = 0};
  idem_pool_trace(self->pool, note, &seen);
  say(self->conns[0], "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"one\"}\n");
  say(self->conns[1], "no JSON\n");
  say(self->conns[2], "{\"jsonrpc\":\"2.0\",\"method\":\"news\"}\n");
  assert_string_equal(seen.text, ">1 a {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"one\"}\n"
                                 "<1 a {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}\n"
                                 ">2 b no JSON\n"
                                 "<2 b {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
                                 "\"message\":\"Parse error\"}}\n"
                                 ">3 c {\"jsonrpc\":\"2.0\",\"method\":\"news\"} (a client)\n");
}

static void who_stops_looking_sees_nothing_more(void **state) {
  world *self = *state;
  notes seen = {.len = 0};
  idem_pool_trace(self->pool, note, &seen);
  idem_pool_trace(self->pool, NULL, NULL);
  say(self->conns[0], "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"one\"}\n");
  assert_int_equal(seen.len, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_conn_of_the_pool_is_seen_both_ways, set_up, tear_down),
      cmocka_unit_test_setup_teardown(who_stops_looking_sees_nothing_more, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
