/* test_gone.c - a client that left while it was owed an answer keeps no place: nothing is sent that would tell of it, so it is asked
 * for. */
#include "support/unit.h"
#include "uv/runtime.h"

#include "child.h"

#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define WAIT "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\"}\n"
#define LONGEST_MS 60000

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  idem_listener *listener;
  unsigned begun, ended;
} world;

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  assert_int_equal(reason, IDEM_CANCEL_CLOSED);
  ((world *)user)->ended++;
  idem_request_drop(request);
}

/* It never answers. */
static void wait_for_ever(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  ((world *)user)->begun++;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, user);
}

static void on_tick(uv_timer_t *timer) { (void)timer; }

/* As if it had died: its system keeps nothing of it after a second and denies that there was anything. */
static void leave(int fd) {
  int seconds = 1;
  assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &seconds, sizeof seconds), 0);
  close(fd);
}

static void run_until(world *in, const unsigned *count) {
  uint64_t until = child_now_ms() + LONGEST_MS;
  while (*count == 0 && child_now_ms() < until) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(*count, 1);
}

static void who_left_while_it_was_owed_an_answer_is_found_out(void **state) {
  static const idem_http_opts often = {.stream_ms = 1000};
  world in = {.begun = 0};
  idem_router *router;
  (void)state;
  assert_int_equal(uv_loop_init(&in.loop), 0);
  uv_timer_init(&in.loop, &in.ticker);
  uv_timer_start(&in.ticker, on_tick, 20, 20);
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "wait", wait_for_ever, &in), IDEM_OK);
  idem_serve_opts opts = {.router = router, .http = &often};
  assert_int_equal(idem_serve(&in.loop, "tcp://127.0.0.1:0", &opts, &in.listener), IDEM_OK);
  int fd = child_connect(idem_listener_url(in.listener));
  assert_int_equal(write(fd, WAIT, strlen(WAIT)), (ssize_t)strlen(WAIT));
  run_until(&in, &in.begun);
  leave(fd);
  run_until(&in, &in.ended);
  assert_int_equal(in.listener->peer_count, 0);
  uv_close((uv_handle_t *)&in.ticker, NULL);
  idem_listener_stop(in.listener, NULL, NULL);
  uv_run(&in.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in.loop), 0);
  idem_router_free(router);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_left_while_it_was_owed_an_answer_is_found_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
