/* test_timer.c - a timer that sets itself again leaves the others of its loop their turn. */
#include "support/unit.h"

#include <idem/uv.h>
#include <uv.h>

enum { MANY = 1000 };

typedef struct world {
  uv_loop_t loop;
  uv_timer_t timer;
  uv_idle_t other;
  int runs, turns;
} world;

/* What it is due for has not happened: it is due for ever. A turn that it kept to itself would not end. */
static void on_timer(uv_timer_t *timer) {
  world *in = timer->data;
  if (++in->runs == MANY) fail_msg("the timer runs again and again, and nobody else does");
  uv_timer_start(timer, on_timer, idem_timer_ms(0, uv_now(&in->loop)), 0);
}

static void on_idle(uv_idle_t *idle) {
  world *in = idle->data;
  if (++in->turns < 3) return;
  uv_close((uv_handle_t *)idle, NULL);
  uv_close((uv_handle_t *)&in->timer, NULL);
}

static void one_that_stays_due_does_not_keep_the_loop_for_itself(void **state) {
  (void)state;
  world in = {.runs = 0};
  assert_int_equal(uv_loop_init(&in.loop), 0);
  uv_timer_init(&in.loop, &in.timer);
  uv_idle_init(&in.loop, &in.other);
  in.timer.data = in.other.data = &in;
  uv_idle_start(&in.other, on_idle);
  uv_timer_start(&in.timer, on_timer, 0, 0);
  uv_run(&in.loop, UV_RUN_DEFAULT);
  assert_int_equal(in.turns, 3);
  assert_int_equal(uv_loop_close(&in.loop), 0);
}

static void the_rest_of_the_time_is_what_it_waits(void **state) {
  (void)state;
  assert_int_equal(idem_timer_ms(1500, 500), 1000);
  assert_int_equal(idem_timer_ms(501, 500), 1);
  assert_int_equal(idem_timer_ms(500, 500), 1);
  assert_int_equal(idem_timer_ms(0, 500), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_stays_due_does_not_keep_the_loop_for_itself),
      cmocka_unit_test(the_rest_of_the_time_is_what_it_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
