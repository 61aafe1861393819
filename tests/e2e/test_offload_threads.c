/* test_offload_threads.c - blocking work on other threads, answered on the loop, whatever becomes of
 * the peer meanwhile. Run under the thread sanitizer, too. */
#include "support/unit.h"

#include <idem/uv.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

typedef struct world {
  uv_loop_t loop;
  idem_router *router;
  idem_listener *listener;
  idem_conn *client;
  int answers;
  int failures;
  int afters;
  int wanted;
  uv_sem_t go; /* work waits for it where a test says when */
  idem_status after_status;
} world;

typedef struct job {
  world *in;
  bool waits;
  long number;
  long result;
} job;

/* ------------------------------------------------------------------------- the server */

static void work(void *data) {
  job *self = data;
  if (self->waits) uv_sem_wait(&self->in->go);
  self->result = self->number * self->number;
}

static void after(idem_request *request, void *data) {
  job *self = data;
  char text[32];
  int len = snprintf(text, sizeof text, "%ld", self->result);
  self->in->after_status = idem_reply_json(request, text, (size_t)len);
  self->in->afters++;
  free(self);
}

static void offload(idem_request *request, yyjson_val *params, bool waits, world *in) {
  int64_t number = 0;
  idem_param_fault fault;
  assert_int_equal(idem_param_int(params, "number", 0, &number, &fault), IDEM_OK);
  job *self = calloc(1, sizeof *self);
  assert_non_null(self);
  *self = (job){.in = in, .waits = waits, .number = (long)number};
  assert_int_equal(idem_offload(&in->loop, request, work, after, self), IDEM_OK);
}

static void square(idem_request *request, yyjson_val *params, void *user) {
  offload(request, params, false, user);
}

/* The peer goes away while its work is being done. */
static void square_late(idem_request *request, yyjson_val *params, void *user) {
  world *in = user;
  offload(request, params, true, in);
  idem_conn_close(in->client);
}

/* ------------------------------------------------------------------------- the client */

static void stop(world *in) {
  if (in->listener) idem_listener_stop(in->listener, NULL, NULL);
  in->listener = NULL;
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  if (response->status != IDEM_OK) {
    in->failures++;
    return;
  }
  int64_t number = (int64_t)response->id;
  assert_int_equal(yyjson_get_sint(response->result), number * number);
  if (++in->answers == in->wanted) {
    idem_conn_close(conn);
    stop(in);
  }
}

static void ask(world *in, const char *method, int count) {
  for (int i = 1; i <= count; i++) {
    char params[32];
    int len = snprintf(params, sizeof params, "[%d]", i);
    assert_int_equal(
        idem_call_json(in->client, method, params, (size_t)len, NULL, on_response, in, NULL),
        IDEM_OK);
  }
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  assert_int_equal(status, IDEM_OK);
  in->client = conn;
  ask(in, in->wanted ? "square" : "square_late", in->wanted ? in->wanted : 1);
}

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  assert_int_equal(uv_sem_init(&in->go, 0), 0);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  idem_router_method(in->router, "square", square, in);
  idem_router_method(in->router, "square_late", square_late, in);
}

static void meet(world *in, void (*on_close)(idem_conn *conn, void *user)) {
  idem_serve_opts opts = {.router = in->router, .user = in, .on_close = on_close};
  assert_int_equal(idem_serve(&in->loop, "tcp://127.0.0.1:0", &opts, &in->listener), IDEM_OK);
  assert_int_equal(idem_connect(&in->loop, idem_listener_url(in->listener), &(idem_connect_opts){0},
                                on_ready, in),
                   IDEM_OK);
  uv_run(&in->loop, UV_RUN_DEFAULT);
}

static void tear_down(world *in) {
  assert_int_equal(uv_loop_close(&in->loop), 0);
  uv_sem_destroy(&in->go);
  idem_router_free(in->router);
}

/* ------------------------------------------------------------------------ the promises */

static void work_of_many_requests_is_answered(void **state) {
  (void)state;
  world in;
  set_up(&in);
  in.wanted = 500;
  meet(&in, NULL);
  assert_int_equal(in.answers, 500);
  assert_int_equal(in.afters, 500);
  tear_down(&in);
}

static void let_work_go_on(idem_conn *conn, void *user) {
  (void)conn;
  world *in = user;
  uv_sem_post(&in->go);
}

/* The client closes; the server's side ends with its listener, aborted; only then is the work done. */
static void after_runs_though_the_peer_is_gone(void **state) {
  (void)state;
  world in;
  set_up(&in);
  idem_serve_opts opts = {
      .router = in.router, .user = &in, .grace_ms = 1, .on_close = let_work_go_on};
  assert_int_equal(idem_serve(&in.loop, "tcp://127.0.0.1:0", &opts, &in.listener), IDEM_OK);
  assert_int_equal(idem_connect(&in.loop, idem_listener_url(in.listener), &(idem_connect_opts){0},
                                on_ready, &in),
                   IDEM_OK);
  while (in.failures == 0) uv_run(&in.loop, UV_RUN_ONCE);
  stop(&in);
  uv_run(&in.loop, UV_RUN_DEFAULT);
  assert_int_equal(in.failures, 1);
  assert_int_equal(in.afters, 1);
  assert_true(in.after_status == IDEM_E_CLOSED || in.after_status == IDEM_E_STATE);
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(work_of_many_requests_is_answered),
      cmocka_unit_test(after_runs_though_the_peer_is_gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
