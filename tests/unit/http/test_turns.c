/* test_turns.c - requests that wait for a turn, or for the answer to the one before them: each is answered with its id,
 * whatever ends meanwhile. */
#include "http/conn.h"
#include "http/endpoint.h"
#include "rpc/rpc.h"
#include "support/http_peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

enum { TURN_MS = 30 };

static unsigned put_off;

static const http_peer *clock_of;

static uint64_t now_ns(void *ctx) {
  (void)ctx;
  return clock_of->now_ms * 1000000u;
}

static void on_late(void *user) {
  (void)user;
  put_off++;
}

static void feed(http_peer *peer, const char *body) {
  char text[1024];
  int len = snprintf(text, sizeof text,
                     "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     strlen(body), body);
  http_peer_feed(peer, text, (size_t)len, 0);
}

/* A server whose turn is over. */
static void begin(http_peer *peer, const idem_http_opts *http) {
  assert_int_equal(http_peer_init(peer, &(http_peer_opts){.http = http}), IDEM_OK);
  put_off = 0;
  clock_of = peer;
  idem__pool_set_turns(peer->rpc->pool, (uint64_t)TURN_MS * 1000000u, now_ns, on_late, NULL);
  feed(peer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}");
  assert_int_equal(http_peer_count(peer, "\"id\":1,\"result\""), 1);
  peer->now_ms += TURN_MS;
  http_peer_forget_output(peer);
}

static void expect_refused(const char *body, const char *contains, const char *also) {
  http_peer peer;
  begin(&peer, NULL);
  feed(&peer, body);
  assert_int_equal(put_off, 1);
  assert_int_equal(peer.output_len, 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  if (!strstr(peer.output, "HTTP/1.1 503 ") || !strstr(peer.output, "Retry-After: 1\r\n") ||
      !strstr(peer.output, contains) || !strstr(peer.output, also))
    fail_msg("%s: got\n%s", body, peer.output);
  assert_int_equal(peer.slow_count + peer.hellos, 0);
  http_peer_deinit(&peer);
}

static void what_waits_for_a_turn_is_refused_when_the_server_goes(void **state) {
  (void)state;
  expect_refused("{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"method\":\"slow\"}",
                 "\"id\":\"a\\\"b\",\"error\"", "\"reason\":\"unavailable\"");
  expect_refused("[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\"},"
                 "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"echo\"}]",
                 "\"id\":2,\"error\"", "\"id\":3,\"error\"");
  expect_refused("{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}", "\"id\":null",
                 "\"reason\":\"unavailable\"");
}

static void what_waits_for_a_turn_has_it(void **state) {
  (void)state;
  http_peer peer;
  begin(&peer, NULL);
  feed(&peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}");
  assert_int_equal(peer.output_len, 0);
  assert_false(idem__pool_run_late(peer.rpc->pool));
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"id\":2,\"result\""), 1);
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------- batches */

static void work(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  ((http_peer *)user)->now_ms += TURN_MS;
  idem_reply_json(request, "1", 1);
}

static void hear(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  ((http_peer *)user)->now_ms += TURN_MS;
  ((http_peer *)user)->hellos++;
}

static void begin_with_work(http_peer *peer) {
  begin(peer, NULL);
  assert_int_equal(idem_router_method(peer->router, "work", work, peer), IDEM_OK);
  assert_int_equal(idem_router_notification(peer->router, "hear", hear, peer), IDEM_OK);
  idem__pool_new_turn(peer->rpc->pool);
}

#define WORK(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"work\"}"
#define HEAR "{\"jsonrpc\":\"2.0\",\"method\":\"hear\"}"

/* Others have their turn between its elements; it is answered when all of them are. */
static void a_batch_goes_on_in_other_turns(void **state) {
  static const struct {
    const char *body, *wanted;
  } cases[] = {
      {"[" WORK("1") "," WORK("2") "," HEAR "," WORK("3") "]", "\"id\":3,\"result\":1}]"},
      {"[" HEAR "," HEAR "," HEAR "]", "HTTP/1.1 204 "},
      {"[" HEAR "," HEAR "," WORK("1") "]", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}]"},
  };
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    http_peer peer;
    begin_with_work(&peer);
    feed(&peer, cases[i].body);
    for (int turn = 0; turn < 2; turn++) {
      assert_int_equal(peer.output_len, 0);
      idem__pool_run_late(peer.rpc->pool);
      http_peer_settle(&peer);
    }
    while (idem__pool_run_late(peer.rpc->pool)) {
    }
    http_peer_settle(&peer);
    assert_int_equal(http_peer_count(&peer, "HTTP/1.1 "), 1);
    assert_int_equal(http_peer_count(&peer, cases[i].wanted), 1);
    http_peer_deinit(&peer);
  }
}

static void a_batch_that_waits_is_refused_when_the_server_goes(void **state) {
  http_peer peer;
  (void)state;
  begin_with_work(&peer);
  feed(&peer, "[" WORK("1") "," WORK("2") "," WORK("3") "]");
  assert_int_equal(peer.output_len, 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"id\":1,\"result\""), 1);
  assert_int_equal(http_peer_count(&peer, "\"id\":2,\"error\""), 1);
  assert_int_equal(http_peer_count(&peer, "\"id\":3,\"error\""), 1);
  http_peer_deinit(&peer);
}

static void a_batch_that_waits_goes_with_its_peer(void **state) {
  http_peer peer;
  (void)state;
  begin_with_work(&peer);
  feed(&peer, "[" WORK("1") "," HEAR "," HEAR "," HEAR "]");
  assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
  while (idem__pool_run_late(peer.rpc->pool)) {
  }
  assert_int_equal(peer.hellos, 0); /* none of them had its turn before */
  assert_int_equal(peer.output_len, 0);
  http_peer_deinit(&peer);
}

/* Its bytes have no room, or its number would not have: each connection may have one. */
static void what_cannot_wait_for_a_turn_is_refused(void **state) {
  (void)state;
  http_peer peer;
  begin(&peer, &(idem_http_opts){.waiting_bytes = 64});
  feed(&peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"slow\"}");
  assert_int_equal(put_off, 0);
  assert_non_null(strstr(peer.output, "HTTP/1.1 503 "));
  assert_int_equal(http_peer_count(&peer, "\"id\":2,\"error\""), 1);
  assert_int_equal(peer.slow_count, 0);
  http_peer_deinit(&peer);
  begin(&peer, &(idem_http_opts){.max_waiting = 1});
  peer.server->held = 1;
  feed(&peer, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"echo\"}");
  assert_int_equal(put_off, 1);
  assert_false(idem__pool_run_late(peer.rpc->pool));
  assert_int_equal(peer.server->held, 1);
  http_peer_settle(&peer);
  assert_int_equal(http_peer_count(&peer, "\"id\":2,\"result\""), 1);
  http_peer_deinit(&peer);
}

/* The end of input is no end of what was asked before it. */
static void all_of_a_pipeline_is_answered_after_the_end_of_input(void **state) {
  static const char *const methods[] = {"slow", "echo", "echo", "slow", "echo"};
  char body[128];
  http_peer peer;
  (void)state;
  assert_int_equal(http_peer_init(&peer, NULL), IDEM_OK);
  for (unsigned i = 0; i < 5; i++) {
    snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\"}", i, methods[i]);
    feed(&peer, body);
  }
  http_peer_eof(&peer);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(peer.slow_count, 1);
    http_peer_answer_slow(&peer);
    http_peer_settle(&peer);
  }
  assert_int_equal(http_peer_count(&peer, "\"result\""), 5);
  assert_int_equal(http_peer_count(&peer, "\"id\":4,\"result\""), 1);
  http_peer_deinit(&peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_waits_for_a_turn_is_refused_when_the_server_goes),
      cmocka_unit_test(what_waits_for_a_turn_has_it),
      cmocka_unit_test(a_batch_goes_on_in_other_turns),
      cmocka_unit_test(a_batch_that_waits_is_refused_when_the_server_goes),
      cmocka_unit_test(a_batch_that_waits_goes_with_its_peer),
      cmocka_unit_test(what_cannot_wait_for_a_turn_is_refused),
      cmocka_unit_test(all_of_a_pipeline_is_answered_after_the_end_of_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
