/* test_ws_turns.c - what a WebSocket brings at once goes on in turns: in its order, one message each while others are in
 * line, and whatever ends the socket waits behind what came before it. */
#include "http/endpoint.h"
#include "support/fault_alloc.h"
#include "support/http_peer.h"
#include "support/unit.h"
#include "support/ws_frame.h"

#include <stdio.h>
#include <string.h>

#define MS ((uint64_t)1000000)
enum { WORK_MS = 20, TURN_MS = 30, ASKED = 10 };

static const char shake[] =
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

static http_peer peer;
static unsigned told_late, worked;

static uint64_t false_clock(void *ctx) {
  (void)ctx;
  return peer.now_ms * MS;
}

static void work(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  peer.now_ms += WORK_MS;
  worked++;
  idem_reply(request, params);
}

static void on_late(void *user) { ++*(unsigned *)user; }

static void open_socket(const idem_alloc *alloc) {
  told_late = worked = 0;
  assert_int_equal(http_peer_init(&peer, &(http_peer_opts){.alloc = alloc}), IDEM_OK);
  assert_int_equal(idem_router_method(peer.router, "work", work, NULL), IDEM_OK);
  http_peer_feed(&peer, shake, sizeof shake - 1, 0);
  assert_int_equal(http_peer_count(&peer, "HTTP/1.1 101 "), 1);
  http_peer_forget_output(&peer);
  idem__pool_set_turns(peer.rpc->pool, TURN_MS * MS, false_clock, on_late, &told_late);
}

static void run_all(void) {
  while (idem__pool_run_late(peer.rpc->pool)) http_peer_settle(&peer);
  http_peer_settle(&peer);
}

static size_t put_text(char *out, const char *text) {
  return frame(out, FIN | TEXT, text, strlen(text), true);
}

static size_t put_work(char *out, unsigned id) {
  char text[80];
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"work\",\"params\":[%u]}",
           id, id);
  return put_text(out, text);
}

/* Requests, a notification behind each. */
static size_t put_many(char *out) {
  size_t len = 0;
  for (unsigned i = 0; i < ASKED; i++) {
    len += put_work(out + len, i);
    len += put_text(out + len, "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}");
  }
  return len;
}

static void expect_all_answered_in_order(void) {
  const char *at = peer.output;
  for (unsigned i = 0; i < ASKED; i++) {
    char id[32];
    snprintf(id, sizeof id, "\"id\":%u,\"result\"", i);
    at = strstr(at, id);
    if (!at) fail_msg("no answer to %u:\n%s", i, peer.output);
  }
  assert_int_equal(peer.hellos, ASKED);
}

static void messages_beyond_a_turn_wait_for_the_next_one(void **state) {
  (void)state;
  char bytes[4096];
  open_socket(NULL);
  http_peer_feed(&peer, bytes, put_many(bytes), 0);
  assert_int_equal(worked, 2);
  assert_int_equal(told_late, 1);
  assert_false(idem__http_conn_want_read(peer.conn));
  assert_true(idem__http_conn_waits(peer.conn));
  assert_true(idem__pool_run_late(peer.rpc->pool));
  assert_int_equal(worked, 4);
  run_all();
  assert_true(idem__http_conn_want_read(peer.conn));
  expect_all_answered_in_order();
  http_peer_deinit(&peer);
}

/* Its end, in order or not, is found where it stands: nothing before it is lost, nothing is sent behind it. */
static void what_ends_a_socket_waits_behind_what_it_brought(void **state) {
  (void)state;
  static const struct {
    unsigned first;
    const char *payload;
    size_t len;
    bool masked;
    const char *answer;
  } ends[] = {{FIN | CLOSE, "\x03\xe8", 2, true, "\x88\x02\x03\xe8"},
              {FIN | CLOSE, "", 0, true, "\x88"},
              {FIN | CLOSE, "\x03", 1, true, "\x88\x02\x03\xea"},
              {FIN | TEXT, "{}", 2, false, "\x88\x02\x03\xea"},
              {FIN | TEXT, "\xff", 1, true, "\x88\x02\x03\xef"},
              {FIN | BINARY, "{}", 2, true, "\x88\x0b\x03\xebtext only"},
              {FIN | 0x70 | TEXT, "{}", 2, true, "\x88\x02\x03\xea"}};
  static const size_t pieces[] = {0, 1, 7};
  for (size_t i = 0; i < 3 * sizeof ends / sizeof *ends; i++) {
    char bytes[4096];
    open_socket(NULL);
    size_t len = put_many(bytes), at = i / 3;
    len += frame(bytes + len, ends[at].first, ends[at].payload, ends[at].len, ends[at].masked);
    http_peer_feed(&peer, bytes, len, pieces[i % 3]);
    run_all();
    expect_all_answered_in_order();
    size_t answer = strlen(ends[at].answer);
    assert_true(peer.output_len > answer);
    const char *last = strstr(peer.output, "\"id\":9,");
    if (!last || !strstr(last, ends[at].answer)) fail_msg("end %zu is not the last word", at);
    assert_int_equal(http_peer_count(&peer, "\x88"), 1);
    http_peer_deinit(&peer);
  }
}

/* The server goes: what has not begun is refused, with its id, before the socket is closed. */
static void what_waits_is_refused_when_the_server_goes(void **state) {
  (void)state;
  for (int now = 0; now < 2; now++) {
    char bytes[4096], id[32];
    open_socket(NULL);
    http_peer_feed(&peer, bytes, put_many(bytes), 0);
    unsigned hellos = (unsigned)peer.hellos;
    if (now)
      idem__http_conn_abort(peer.conn, peer.now_ms);
    else
      idem__http_conn_close(peer.conn, peer.now_ms);
    http_peer_settle(&peer);
    assert_int_equal(worked, 2);
    assert_int_equal(peer.hellos, hellos);
    for (unsigned i = 0; i < ASKED; i++) {
      snprintf(id, sizeof id, "\"id\":%u,\"%s\"", i, i < 2 ? "result" : "error");
      assert_int_equal(http_peer_count(&peer, id), 1);
    }
    assert_false(idem__pool_run_late(peer.rpc->pool));
    http_peer_deinit(&peer);
  }
}

static const char batch[] = "[{\"jsonrpc\":\"2.0\",\"id\":70,\"method\":\"work\"},"
                            "{\"jsonrpc\":\"2.0\",\"id\":71,\"method\":\"work\"},"
                            "{\"jsonrpc\":\"2.0\",\"id\":72,\"method\":\"work\"}]";

static void a_batch_goes_on_before_what_is_behind_it(void **state) {
  (void)state;
  char bytes[4096];
  open_socket(NULL);
  size_t len = put_text(bytes, batch);
  len += put_text(bytes + len, batch);
  len += put_many(bytes + len);
  http_peer_feed(&peer, bytes, len, 0);
  assert_int_equal(worked, 2);
  run_all();
  assert_int_equal(worked, 6 + ASKED);
  assert_int_equal(http_peer_count(&peer, "\"id\":72,\"result\""), 2);
  expect_all_answered_in_order();
  http_peer_deinit(&peer);
  /* Its end as well, also where that comes later. */
  for (int later = 0; later < 2; later++) {
    open_socket(NULL);
    len = put_text(bytes, batch);
    size_t close = frame(bytes + len, FIN | CLOSE, "\x03\xe8", 2, true);
    http_peer_feed(&peer, bytes, later ? len : len + close, 0);
    assert_false(idem__http_conn_want_read(peer.conn));
    if (later) http_peer_feed(&peer, bytes + len, close, 0);
    run_all();
    const char *array = strstr(peer.output, "\"id\":72,\"result\"");
    assert_non_null(array);
    assert_non_null(strstr(array, "\x88\x02\x03\xe8"));
    http_peer_deinit(&peer);
  }
}

/* Nor does anything overtake it when the server goes. */
static void a_batch_is_refused_before_what_is_behind_it(void **state) {
  (void)state;
  char bytes[4096];
  open_socket(NULL);
  size_t len = put_text(bytes, batch);
  len += put_work(bytes + len, 5);
  len += frame(bytes + len, FIN | CLOSE, "\x03\xe8", 2, true);
  http_peer_feed(&peer, bytes, len, 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  static const char of_batch[] = "\"id\":72,\"error\"", behind[] = "\"id\":5,\"error\"";
  const char *first = memmem(peer.output, peer.output_len, of_batch, sizeof of_batch - 1);
  const char *second = memmem(peer.output, peer.output_len, behind, sizeof behind - 1);
  assert_true(first && first < second);
  assert_int_equal(worked, 2);
  http_peer_deinit(&peer);
}

/* Fragments, with a ping between them, go on where they were. */
static void fragments_behind_it_wait_too(void **state) {
  (void)state;
  static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"work\"}";
  char bytes[4096];
  open_socket(NULL);
  size_t len = put_many(bytes);
  len += frame(bytes + len, TEXT, text, 5, true);
  len += frame(bytes + len, FIN | PING, "hi", 2, true);
  http_peer_feed(&peer, bytes, len, 0);
  run_all();
  expect_all_answered_in_order();
  assert_int_equal(http_peer_count(&peer, "\x8a\x02hi"), 1);
  idem__pool_new_turn(peer.rpc->pool);
  http_peer_feed(&peer, bytes, frame(bytes, FIN, text + 5, sizeof text - 6, true), 0);
  assert_int_equal(http_peer_count(&peer, "\"id\":77,\"result\""), 1);
  http_peer_deinit(&peer);
}

/* What has begun behind it must come to its end in time, as ever; what has ended must not. */
static void a_message_behind_it_is_waited_for_as_long_as_any(void **state) {
  (void)state;
  for (int whole = 0; whole < 2; whole++) {
    char bytes[4096];
    open_socket(NULL);
    size_t len = put_many(bytes);
    len += frame(bytes + len, whole ? FIN | TEXT : TEXT, "[]", 2, true);
    http_peer_feed(&peer, bytes, len, 0);
    run_all();
    http_peer_wait(&peer, 30001);
    assert_int_equal(http_peer_count(&peer, "\x88\x0a\x03\xf0too slow"), whole ? 0 : 1);
    http_peer_deinit(&peer);
  }
}

/* Somebody else in line, who notes how far the socket has come. */
typedef struct other {
  idem__late late;
  unsigned runs, seen[2 * ASKED];
} other;

static void look(idem__late *late) {
  other *self = IDEM_CONTAINER(late, other, late);
  peer.now_ms += 1;
  self->seen[self->runs++] = worked;
  if (self->runs < ASKED) idem__pool_put_off(peer.rpc->pool, late);
}

static void it_takes_turns_by_message(void **state) {
  (void)state;
  other self = {.late.run = look};
  char bytes[4096];
  size_t len = 0;
  open_socket(NULL);
  for (unsigned i = 0; i < ASKED; i++) len += put_work(bytes + len, i);
  http_peer_feed(&peer, bytes, len, 0);
  idem_list_init(&self.late.link);
  idem__pool_put_off(peer.rpc->pool, &self.late);
  run_all();
  for (unsigned i = 0; i < ASKED - 2; i++) assert_int_equal(self.seen[i], 3 + i);
  assert_int_equal(worked, ASKED);
  http_peer_deinit(&peer);
}

/* The server goes, or the connection does: what waits is not begun any more. */
static void what_waits_goes_with_its_socket(void **state) {
  (void)state;
  for (int lost = 0; lost < 2; lost++) {
    char bytes[4096];
    open_socket(NULL);
    size_t len = put_many(bytes);
    len += frame(bytes + len, FIN | CLOSE, "\x03\xe8", 2, true);
    http_peer_feed(&peer, bytes, len, 0);
    if (lost) {
      assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
    } else {
      idem__http_conn_close(peer.conn, peer.now_ms);
      http_peer_settle(&peer);
      assert_int_equal(http_peer_count(&peer, "\x88\x02\x03\xe8"), 1); /* to its own */
    }
    run_all();
    assert_int_equal(worked, 2);
    if (!lost) assert_true(idem__http_conn_closing(peer.conn)); /* its close frame was read */
    http_peer_deinit(&peer);
  }
}

/* Whichever allocation fails, all are answered, or the socket ends. */
static void without_memory_to_wait_the_socket_ends(void **state) {
  (void)state;
  bool all = false;
  for (size_t n = 1; n < 200 && !all; n++) {
    char bytes[4096];
    fault_alloc fault;
    fault_alloc_init(&fault);
    open_socket(&fault.alloc);
    fault_alloc_fail_in(&fault, n);
    http_peer_feed(&peer, bytes, put_many(bytes), 0);
    run_all();
    fault_alloc_fail_in(&fault, 0);
    all = worked == ASKED && peer.hellos == ASKED;
    bool ended = peer.status != IDEM_OK || strstr(peer.output, "\x88");
    bool told = http_peer_count(&peer, "\"error\"") > 0;
    assert_true(worked == ASKED || ended || told);
    http_peer_deinit(&peer);
    fault_alloc_assert_clean(&fault);
  }
  assert_true(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_waits_is_refused_when_the_server_goes),
      cmocka_unit_test(a_batch_goes_on_before_what_is_behind_it),
      cmocka_unit_test(a_batch_is_refused_before_what_is_behind_it),
      cmocka_unit_test(messages_beyond_a_turn_wait_for_the_next_one),
      cmocka_unit_test(what_ends_a_socket_waits_behind_what_it_brought),
      cmocka_unit_test(fragments_behind_it_wait_too),
      cmocka_unit_test(a_message_behind_it_is_waited_for_as_long_as_any),
      cmocka_unit_test(it_takes_turns_by_message),
      cmocka_unit_test(what_waits_goes_with_its_socket),
      cmocka_unit_test(without_memory_to_wait_the_socket_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
