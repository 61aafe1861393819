/* test_back_pressure.c - a peer that does not read cannot grow memory, and two peers that both serve
 * and call cannot wait for each other for ever. */
#include "rpc/rpc.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/rpc.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMIT = 4096 };

typedef struct flood {
  fault_alloc memory;
  idem_router *router;
  idem_conn *conns[2];
  char wire[2][2 * LIMIT]; /* a socket's buffer: small, so that writers must wait */
  size_t wire_len[2];
  idem_chunk writing[2]; /* taken, not yet wholly in the wire */
  size_t written[2];
  bool is_writing[2];
  size_t calls_to_make[2];
  size_t notes_to_make[2];
  size_t calls_ended;
  size_t served;
} flood;

static void echo(idem_request *request, yyjson_val *params, void *user) {
  if (user) ((flood *)user)->served++;
  idem_reply(request, params);
}

static idem_policy small_policy(void) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.limits.queued_output_bytes = LIMIT;
  policy.limits.queued_input_bytes = 1 << 20;
  return policy;
}

static idem_conn *open_conn(fault_alloc *memory, idem_router *router, const idem_policy *policy,
                            void *user) {
  idem_conn *conn;
  idem_conn_opts opts = {.router = router, .policy = policy, .alloc = &memory->alloc, .user = user};
  assert_int_equal(idem_conn_new(&opts, &conn), IDEM_OK);
  return conn;
}

static idem_router *open_router(fault_alloc *memory, void *user) {
  idem_router *router;
  idem_router_opts opts = {.alloc = &memory->alloc};
  assert_int_equal(idem_router_new(&opts, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "echo", echo, user), IDEM_OK);
  return router;
}

/* One conn whose peer does not read. */
typedef struct deaf {
  fault_alloc memory;
  idem_router *router;
  idem_conn *conn;
} deaf;

static idem_conn *open_deaf(deaf *peer, const idem_policy *policy) {
  fault_alloc_init(&peer->memory);
  peer->router = open_router(&peer->memory, NULL);
  peer->conn = open_conn(&peer->memory, peer->router, policy, NULL);
  return peer->conn;
}

static void close_deaf(deaf *peer) {
  idem_conn_free(peer->conn);
  idem_router_free(peer->router);
  fault_alloc_assert_clean(&peer->memory);
}

static int write_echo(char *out, size_t size, unsigned id) {
  return snprintf(out, size,
                  "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"echo\",\"params\":[\"%0100u\"]}\n",
                  id, id);
}

static void reading_pauses_when_output_is_not_taken(void **state) {
  (void)state;
  deaf peer;
  idem_policy policy = small_policy();
  idem_conn *conn = open_deaf(&peer, &policy);
  char text[256];
  unsigned sent = 0, answered = 0;
  while (idem_conn_want_read(conn)) {
    int len = write_echo(text, sizeof text, sent++);
    assert_int_equal(idem_conn_feed(conn, text, (size_t)len), IDEM_OK);
    assert_true(sent < 1000);
  }
  assert_true(idem_conn_queued(conn) >= LIMIT);
  assert_true(idem_conn_queued(conn) < LIMIT + 200);
  /* What is fed all the same waits; nothing is lost. */
  for (int i = 0; i < 50; i++) {
    int len = write_echo(text, sizeof text, sent++);
    assert_int_equal(idem_conn_feed(conn, text, (size_t)len), IDEM_OK);
  }
  assert_true(idem_conn_queued(conn) < LIMIT + 200);
  assert_true(idem_conn_deadline(conn) > 0); /* nothing to do until the peer reads */
  while (answered < sent) {
    idem_chunk chunk;
    assert_true(idem_conn_next_chunk(conn, &chunk));
    for (size_t i = 0; i < chunk.len; i++) answered += chunk.data[i] == '\n';
    idem_chunk_free(&chunk);
    if (idem_conn_deadline(conn) == 0) assert_int_equal(idem_conn_expire(conn), IDEM_OK);
  }
  assert_int_equal(answered, sent);
  assert_true(idem_conn_want_read(conn));
  close_deaf(&peer);
}

static void a_peer_that_never_reads_ends_the_conn(void **state) {
  (void)state;
  deaf peer;
  idem_policy policy = small_policy();
  idem_conn *conn = open_deaf(&peer, &policy);
  idem_status status = IDEM_OK;
  for (int i = 0; i < 1000 && status == IDEM_OK; i++) status = idem_conn_feed(conn, "x\n", 2);
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_int_equal(idem_conn_feed(conn, "x\n", 2), IDEM_E_LIMIT); /* final */
  assert_int_equal(idem_conn_expire(conn), IDEM_E_LIMIT);
  assert_int_equal(idem_conn_feed_eof(conn), IDEM_E_LIMIT);
  assert_true(idem_conn_done(conn));
  assert_true(peer.memory.peak_bytes < 65536);
  close_deaf(&peer);
}

static void a_call_is_refused_while_the_peer_must_read(void **state) {
  (void)state;
  deaf peer;
  idem_policy policy = small_policy();
  idem_conn *conn = open_deaf(&peer, &policy);
  idem_status status = IDEM_OK;
  int sent = 0;
  for (; sent < 1000 && status == IDEM_OK; sent++) {
    status = idem_notify_json(conn, "a_method_with_a_long_name", "[1,2,3,4,5,6,7,8,9]", 19);
  }
  assert_int_equal(status, IDEM_E_LIMIT);
  assert_int_equal(idem_call(conn, "m", NULL, NULL, NULL, NULL, NULL), IDEM_E_LIMIT);
  assert_int_equal(idem_conn_pending_calls(conn), 0);
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) idem_chunk_free(&chunk);
  assert_int_equal(idem_call(conn, "m", NULL, NULL, NULL, NULL, NULL), IDEM_OK);
  close_deaf(&peer);
}

/* ------------------------------------------------------------- two peers */

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  assert_int_equal(response->status, IDEM_OK);
  ((flood *)user)->calls_ended++;
}

static void make_calls(flood *f, int i) {
  static const char params[] =
      "[\"0123456789012345678901234567890123456789012345678901234567890\"]";
  while (f->calls_to_make[i]) {
    idem_status status =
        idem_call_json(f->conns[i], "echo", params, sizeof params - 1, NULL, on_response, f, NULL);
    if (status == IDEM_E_LIMIT) return;
    assert_int_equal(status, IDEM_OK);
    f->calls_to_make[i]--;
  }
}

static void make_notes(flood *f, int i) {
  while (f->notes_to_make[i]) {
    idem_status status = idem_notify_json(f->conns[i], "echo", "[\"0123456789012345678901\"]", 26);
    if (status == IDEM_E_LIMIT) return;
    assert_int_equal(status, IDEM_OK);
    f->notes_to_make[i]--;
  }
}

/* Writes as much as the wire takes; a chunk is freed when all of it is gone. */
static bool write_some(flood *f, int i) {
  if (!f->is_writing[i] && !idem_conn_next_chunk(f->conns[i], &f->writing[i])) return false;
  f->is_writing[i] = true;
  char *wire = f->wire[1 - i];
  size_t *len = &f->wire_len[1 - i];
  size_t left = f->writing[i].len - f->written[i], room = sizeof f->wire[0] - *len;
  size_t now = left < room ? left : room;
  memcpy(wire + *len, f->writing[i].data + f->written[i], now);
  *len += now;
  f->written[i] += now;
  if (f->written[i] == f->writing[i].len) {
    idem_chunk_free(&f->writing[i]);
    f->is_writing[i] = false;
    f->written[i] = 0;
    return true;
  }
  return now > 0;
}

/* Reads only while the conn wants to, as a driver does. */
static bool read_some(flood *f, int i) {
  if (!f->wire_len[i] || !idem_conn_want_read(f->conns[i])) return false;
  size_t len = f->wire_len[i] < 700 ? f->wire_len[i] : 700;
  assert_int_equal(idem_conn_feed(f->conns[i], f->wire[i], len), IDEM_OK);
  f->wire_len[i] -= len;
  memmove(f->wire[i], f->wire[i] + len, f->wire_len[i]);
  return true;
}

static bool turn(flood *f, int i) {
  bool moved = write_some(f, i);
  moved = read_some(f, i) || moved;
  if (idem_conn_deadline(f->conns[i]) == 0) {
    assert_int_equal(idem_conn_expire(f->conns[i]), IDEM_OK);
    moved = true;
  }
  size_t before = f->calls_to_make[i] + f->notes_to_make[i];
  make_calls(f, i);
  make_notes(f, i);
  return moved || f->calls_to_make[i] + f->notes_to_make[i] != before;
}

/* The floods differ in what is sent: calls, notifications, or both. Nothing is lost in any. */
static void play_flood(size_t calls, size_t notes) {
  for (size_t concurrency = 0; concurrency < 2; concurrency++) {
    flood *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fault_alloc_init(&f->memory);
    idem_policy policy = small_policy();
    policy.concurrency = concurrency;
    policy.limits.in_flight = 100000;
    f->router = open_router(&f->memory, f);
    for (int i = 0; i < 2; i++) {
      f->conns[i] = open_conn(&f->memory, f->router, &policy, f);
      f->calls_to_make[i] = calls;
      f->notes_to_make[i] = notes;
    }
    while (f->calls_ended < 2 * calls || f->served < 2 * (calls + notes)) {
      bool moved = turn(f, 0);
      moved = turn(f, 1) || moved;
      assert_true(moved); /* standing still is a deadlock */
    }
    assert_int_equal(f->served, 2 * (calls + notes));
    assert_true(f->memory.peak_bytes < 8 << 20);
    for (int i = 0; i < 2; i++) {
      if (f->is_writing[i]) idem_chunk_free(&f->writing[i]);
      idem_conn_free(f->conns[i]);
    }
    idem_router_free(f->router);
    fault_alloc_assert_clean(&f->memory);
    free(f);
  }
}

static void two_peers_that_flood_each_other_never_deadlock(void **state) {
  (void)state;
  play_flood(2000, 0);
}

static void two_peers_that_only_notify_never_deadlock(void **state) {
  (void)state;
  play_flood(0, 2000);
}

static void two_peers_that_call_and_notify_never_deadlock(void **state) {
  (void)state;
  play_flood(1000, 1000);
}

static void notifications_are_dropped_when_too_much_waits(void **state) {
  (void)state;
  deaf peer;
  idem_policy policy = small_policy();
  policy.concurrency = 1;
  policy.limits.queued_input_bytes = 65536;
  idem_conn *conn = open_deaf(&peer, &policy);
  char text[256];
  while (idem_conn_want_read(conn)) {
    int len = write_echo(text, sizeof text, 1);
    idem_conn_feed(conn, text, (size_t)len);
  }
  int held = write_echo(text, sizeof text, 2); /* what comes after it waits behind it */
  assert_int_equal(idem_conn_feed(conn, text, (size_t)held), IDEM_OK);
  static const char note[] = "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[1]}\n";
  for (int i = 0; i < 10000; i++) {
    assert_int_equal(idem_conn_feed(conn, note, sizeof note - 1), IDEM_OK);
  }
  assert_true(peer.memory.peak_bytes < 524288);
  close_deaf(&peer);
}

static void requests_are_refused_when_too_much_waits(void **state) {
  (void)state;
  deaf peer;
  idem_policy policy = small_policy();
  policy.limits.queued_input_bytes = 65536;
  idem_conn *conn = open_deaf(&peer, &policy);
  idem_status status = IDEM_OK;
  char text[256];
  for (unsigned i = 0; i < 2000 && status == IDEM_OK; i++) {
    int len = write_echo(text, sizeof text, i);
    status = idem_conn_feed(conn, text, (size_t)len);
  }
  assert_int_equal(status, IDEM_E_LIMIT); /* refusals are output too, and nobody reads */
  assert_true(peer.memory.peak_bytes < 524288);
  close_deaf(&peer);
}

/* With whole framing each answer is a chunk of its own. These have 37 bytes, the least there is, and a chunk
 * without its text has some 200. */
static void small_answers_that_wait_take_no_large_buffers(void **state) {
  (void)state;
  enum { MOST = 1 << 20 };
  static const char ask[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}";
  fault_alloc memory;
  fault_alloc_init(&memory);
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  policy.limits.queued_output_bytes = MOST;
  idem_router *router = open_router(&memory, NULL);
  idem_conn *conn = open_conn(&memory, router, &policy, NULL);
  while (idem_conn_want_read(conn))
    assert_int_equal(idem__conn_message(conn, ask, sizeof ask - 1, NULL), IDEM_OK);
  if (memory.live_bytes > (size_t)8 * MOST)
    fail_msg("%zu bytes for %zu", memory.live_bytes, idem_conn_queued(conn));
  idem_chunk chunk;
  while (idem_conn_next_chunk(conn, &chunk)) idem_chunk_free(&chunk);
  idem_conn_free(conn);
  idem_router_free(router);
  fault_alloc_assert_clean(&memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reading_pauses_when_output_is_not_taken),
      cmocka_unit_test(a_peer_that_never_reads_ends_the_conn),
      cmocka_unit_test(a_call_is_refused_while_the_peer_must_read),
      cmocka_unit_test(two_peers_that_flood_each_other_never_deadlock),
      cmocka_unit_test(two_peers_that_only_notify_never_deadlock),
      cmocka_unit_test(two_peers_that_call_and_notify_never_deadlock),
      cmocka_unit_test(notifications_are_dropped_when_too_much_waits),
      cmocka_unit_test(requests_are_refused_when_too_much_waits),
      cmocka_unit_test(small_answers_that_wait_take_no_large_buffers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
