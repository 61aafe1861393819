/* test_client_faults.c - idem_connect without memory. Each allocation of a conversation fails in turn,
 * once and for good: on_ready runs once or the call failed itself, a call that was taken ends once,
 * nothing leaks. */
#include "certificate.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/uv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <uv.h>

#define WAIT_MS 60000

typedef struct world {
  const char *url;
  uv_loop_t loop;
  uv_timer_t watch;
  int readies, opened, closed, calls, answers, good;
} world;

static void on_watch(uv_timer_t *timer) {
  const world *in = timer->data;
  fail_msg("%s: %d ready, %d calls, %d answers", in->url, in->readies, in->calls, in->answers);
}

static void on_open(idem_conn *conn, void *user) {
  (void)conn;
  ((world *)user)->opened++;
}
static void on_close(idem_conn *conn, void *user) {
  (void)conn;
  ((world *)user)->closed++;
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  in->answers++;
  in->good += response->status == IDEM_OK;
  idem_conn_close(conn);
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  assert_true((conn != NULL) == (status == IDEM_OK));
  if (!conn) return;
  status = idem_call_json(conn, "echo", "[1]", 3, NULL, on_response, in, NULL);
  if (status == IDEM_OK)
    in->calls++;
  else
    idem_conn_close(conn);
}

static void converse(fault_alloc *fault, void *user) {
  world *in = calloc(1, sizeof *in);
  assert_non_null(in);
  in->url = user;
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->watch);
  in->watch.data = in;
  uv_timer_start(&in->watch, on_watch, WAIT_MS, 0);
  uv_unref((uv_handle_t *)&in->watch);
  static const char *const argv[] = {
      "/bin/sh", "-c",
      "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}'; read line; echo bye >&2",
      NULL};
  idem_client_opts client = {.ca_file = cert, .token = "secret", .argv = argv};
  idem_connect_opts opts = {.alloc = &fault->alloc,
                            .client = &client,
                            .on_open = on_open,
                            .on_close = on_close,
                            .user = in};
  idem_status status = idem_connect(&in->loop, in->url, &opts, on_ready, in);
  assert_true(status == IDEM_OK || fault->failures > 0);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&in->watch, NULL);
  assert_int_equal(uv_run(&in->loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  assert_int_equal(in->readies, status == IDEM_OK);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* the server runs; no program waits for us */
  assert_int_equal(in->answers, in->calls);
  assert_int_equal(in->opened, in->closed);
  if (fault->failures == 0) assert_int_equal(in->good, 1);
  free(in);
}

static void a_call_without_memory_ends_once(void **state) {
  (void)state;
  char urls[6][128] = {[5] = "exec:"};
  child server =
      CHILD(REFERENCE, "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--tls", "127.0.0.1:0",
            "--wss", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  for (int i = 0; i < 5; i++) child_listening(&server, urls[i], sizeof urls[i]);
  for (int i = 0; i < 6; i++) {
    size_t once = fault_alloc_sweep(converse, urls[i], 500);
    size_t for_good = fault_alloc_sweep_ever_after(converse, urls[i], 500);
    print_message("  %s: %zu and %zu failures survived\n", urls[i], once, for_good);
    assert_true(once > 3 && for_good > 3);
  }
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_without_memory_ends_once)};
  return cmocka_run_group_tests(tests, certificate_set_up, certificate_tear_down);
}
