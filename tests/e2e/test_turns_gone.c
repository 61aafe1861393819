/* test_turns_gone.c - what a peer has sent is worked on, though it waits for its turn when the peer goes: by closing in
 * order, with answers that it does not read, by a reset. */
#include "rpc/inside.h"
#include "support/unit.h"
#include "support/ws_frame.h"
#include "uv/web.h"

#include "child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TELL "{\"jsonrpc\":\"2.0\",\"method\":\"tell\"}"
#define ASK "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ask\"}"
#define WAIT "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"wait\"}"
#define LONGEST_MS 20000
#define TURN_NS 100000u
#define WORK_NS (TURN_NS * 3 / 2) /* a turn is over after one message */
enum { FEW = 30, MANY = 2000 };   /* the latter are more than is read at once */

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  idem_router *router;
  idem_listener *listener;
  char folder[64], url[128];
  unsigned told, asked, waiting, cancelled;
} world;

static void work(void) {
  uint64_t until = idem__clock_ns(NULL) + WORK_NS;
  while (idem__clock_ns(NULL) < until) continue;
}

static void tell(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params;
  work();
  ((world *)user)->told++;
}

static void ask(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  work();
  ((world *)user)->asked++;
  idem_reply_json(request, "1", 1);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  assert_int_equal(reason, IDEM_CANCEL_CLOSED);
  ((world *)user)->cancelled++;
  idem_request_drop(request);
}

static void wait_for_ever(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  ((world *)user)->waiting++;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, user);
}

static void on_tick(uv_timer_t *timer) { (void)timer; }

static void begin(world *in, const char *url) {
  *in = (world){.told = 0};
  child_make_folder(in->folder, sizeof in->folder);
  snprintf(in->url, sizeof in->url, "%s", url);
  if (strcmp(url, "unix") == 0) snprintf(in->url, sizeof in->url, "unix:%s/socket", in->folder);
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 20, 20);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_notification(in->router, "tell", tell, in), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "ask", ask, in), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "wait", wait_for_ever, in), IDEM_OK);
  idem_serve_opts opts = {.router = in->router};
  assert_int_equal(idem_serve(&in->loop, in->url, &opts, &in->listener), IDEM_OK);
  in->listener->runtime->pool->turn_ns = TURN_NS;
}

static void end(world *in) {
  uv_close((uv_handle_t *)&in->ticker, NULL);
  idem_listener_stop(in->listener, NULL, NULL);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  idem_router_free(in->router);
  child_remove_folder(in->folder);
}

static bool is_there(const world *in) {
  const idem_listener *listener = in->listener;
  return listener->web ? listener->web->count > 0 : listener->peer_count > 0;
}

static void run_while(world *in, bool (*holds)(const world *in)) {
  uint64_t until = child_now_ms() + LONGEST_MS;
  while (holds(in) && child_now_ms() < until) uv_run(&in->loop, UV_RUN_ONCE);
  assert_false(holds(in));
}

static bool nothing_is_heard(const world *in) { return !in->told; }

static void run_until_it_is_gone(world *in) {
  run_while(in, nothing_is_heard);
  run_while(in, is_there);
}

/* ----------------------------------------------------------------------- what is sent */

typedef struct letter {
  char *bytes;
  size_t len;
  bool frames;
} letter;

static void add(letter *self, const char *text) {
  size_t len = strlen(text);
  if (self->frames)
    self->len += frame(self->bytes + self->len, FIN | TEXT, text, len, true);
  else
    self->len += (size_t)sprintf(self->bytes + self->len, "%s\n", text);
}

/* `count` notifications, a request before each where answers are wanted, and room for two more. */
static letter write_letter(const world *in, unsigned count, bool asks) {
  letter self = {.bytes = malloc(((size_t)count + 2) * 128), .frames = in->listener->web != NULL};
  assert_non_null(self.bytes);
  for (unsigned i = 0; i < count; i++) {
    if (asks) add(&self, ASK);
    add(&self, TELL);
  }
  return self;
}

/* Who closes with something unread resets: the answer to the handshake is read. */
static void shake_hands(world *in, int fd) {
  static const char shake[] =
      "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
  char answer[512] = "";
  uint64_t until = child_now_ms() + LONGEST_MS;
  child_send(fd, shake);
  while (!strstr(answer, "\r\n\r\n") && child_now_ms() < until) {
    size_t len = strlen(answer);
    uv_run(&in->loop, UV_RUN_ONCE);
    (void)!recv(fd, answer + len, sizeof answer - len - 1, MSG_DONTWAIT);
  }
  assert_non_null(strstr(answer, "HTTP/1.1 101 "));
}

static int open_conn(world *in) {
  int fd = child_connect(idem_listener_url(in->listener));
  if (in->listener->web) shake_hands(in, fd);
  return fd;
}

static void put(int fd, letter *sent) {
  assert_int_equal(write(fd, sent->bytes, sent->len), (ssize_t)sent->len);
  free(sent->bytes);
}

static const char *const urls[] = {"unix", "tcp://127.0.0.1:0", "ws://127.0.0.1:0/"};

static void who_closes_in_order_has_all_worked_on(void **state) {
  (void)state;
  for (size_t i = 0; i < 6; i++) {
    world in;
    unsigned count = i % 2 ? MANY : FEW;
    begin(&in, urls[i / 2]);
    letter sent = write_letter(&in, count, false);
    int fd = open_conn(&in);
    put(fd, &sent);
    close(fd);
    run_until_it_is_gone(&in);
    assert_int_equal(in.told, count);
    end(&in);
  }
}

/* The first answer meets a closed socket: what was read by then is worked on all the same. */
static void who_reads_no_answers_has_all_worked_on(void **state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    world in;
    begin(&in, urls[i]);
    letter sent = write_letter(&in, FEW, true);
    int fd = open_conn(&in);
    put(fd, &sent);
    close(fd);
    run_until_it_is_gone(&in);
    assert_int_equal(in.told, FEW);
    assert_int_equal(in.asked, FEW);
    end(&in);
  }
}

/* What runs is cancelled, as ever, once the rest has been worked on. */
static void a_reset_waits_for_what_was_read(void **state) {
  (void)state;
  for (size_t i = 1; i < 3; i++) {
    world in;
    struct linger at_once = {.l_onoff = 1};
    begin(&in, urls[i]);
    letter sent = write_letter(&in, FEW, false);
    add(&sent, WAIT);
    add(&sent, TELL);
    int fd = open_conn(&in);
    put(fd, &sent);
    run_while(&in, nothing_is_heard);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    run_until_it_is_gone(&in);
    assert_int_equal(in.told, FEW + 1);
    assert_int_equal(in.waiting, 1);
    assert_int_equal(in.cancelled, 1);
    end(&in);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_closes_in_order_has_all_worked_on),
      cmocka_unit_test(who_reads_no_answers_has_all_worked_on),
      cmocka_unit_test(a_reset_waits_for_what_was_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
