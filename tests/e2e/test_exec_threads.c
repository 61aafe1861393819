/* test_exec_threads.c - programs as peers of several loops at once, a thread each: one SIGCHLD wakes
 * them all, and each finds its own. Run under the thread sanitizer, too. */
#include "support/unit.h"

#include <idem/uv.h>

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <uv.h>

enum { THREADS = 4, PROGRAMS = 12 };

typedef struct world {
  uv_thread_t thread;
  int number;
  int right, answers, closed, failures;
} world;

typedef struct program {
  world *in;
  int status;
} program;

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  program *self = user;
  self->in->answers += response->status == IDEM_OK;
  idem_conn_close(conn);
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  program *self = user;
  if (status != IDEM_OK ||
      idem_call_json(conn, "x", "[]", 2, NULL, on_response, self, NULL) != IDEM_OK)
    self->in->failures++;
}

static void on_close(idem_conn *conn, void *user) {
  program *self = user;
  self->in->closed++;
  self->in->right += idem_conn_close_reason(conn).exit_status == self->status;
}

static void start(uv_loop_t *loop, program *self) {
  char status[16];
  snprintf(status, sizeof status, "%d", self->status);
  const char *const argv[] = {
      "/bin/sh", "-c",
      "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}'; read line; exit $0", status,
      NULL};
  idem_client_opts client = {.argv = argv, .exit_ms = 20000};
  idem_connect_opts opts = {.client = &client, .on_close = on_close, .user = self};
  if (idem_connect(loop, "exec:", &opts, on_ready, self) != IDEM_OK) self->in->failures++;
}

static void run(void *user) {
  world *in = user;
  program programs[PROGRAMS];
  uv_loop_t loop;
  if (uv_loop_init(&loop) != 0) return;
  for (int i = 0; i < PROGRAMS; i++) {
    programs[i] = (program){.in = in, .status = in->number * PROGRAMS + i};
    start(&loop, &programs[i]);
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  in->failures += uv_loop_close(&loop) != 0;
}

static void each_loop_reaps_its_own(void **state) {
  (void)state;
  world worlds[THREADS];
  for (int i = 0; i < THREADS; i++) {
    worlds[i] = (world){.number = i};
    assert_int_equal(uv_thread_create(&worlds[i].thread, run, &worlds[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    uv_thread_join(&worlds[i].thread);
    assert_int_equal(worlds[i].failures, 0);
    assert_int_equal(worlds[i].answers, PROGRAMS);
    assert_int_equal(worlds[i].closed, PROGRAMS);
    assert_int_equal(worlds[i].right, PROGRAMS);
  }
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_loop_reaps_its_own)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
