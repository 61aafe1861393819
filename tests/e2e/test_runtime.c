/* test_runtime.c - the runtime from inside a process: both ends of a conversation on one loop. */
#include "support/unit.h"
#include "uv/runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct world {
  uv_loop_t loop;
  idem_router *router;
  idem_listener *listener;
  idem_conn *client;
  idem_conn *served;
  idem_request *kept;
  idem_status ready;
  int readies;
  int opened, closed;
  int answers, asked;
  int cancelled;
  idem_cancel_reason reason;
  size_t most_queued;
  bool stopped;
} world;

/* -------------------------------------------------------------------------- common parts */

static void on_open(idem_conn *conn, void *user) {
  world *in = user;
  in->opened++;
  in->served = conn;
}
static void on_close(idem_conn *conn, void *user) {
  (void)conn;
  world *in = user;
  in->closed++;
}
static void on_stopped(void *user) {
  world *in = user;
  in->stopped = true;
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  world *in = user;
  in->cancelled++;
  in->reason = reason;
  idem_request_drop(request);
}

static void keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  world *in = user;
  in->kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, in);
}

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "echo", echo, in), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "keep", keep, in), IDEM_OK);
}

static idem_serve_opts opts_of(world *in) {
  return (idem_serve_opts){
      .router = in->router, .on_open = on_open, .on_close = on_close, .user = in};
}

static void serve(world *in, const char *url) {
  idem_serve_opts opts = opts_of(in);
  assert_int_equal(idem_serve(&in->loop, url, &opts, &in->listener), IDEM_OK);
}

static void set_up_serving(world *in) {
  set_up(in);
  serve(in, "tcp://127.0.0.1:0");
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  in->client = conn;
  in->ready = status;
  in->readies++;
}

static void connect_to(world *in, const char *url) {
  assert_int_equal(
      idem_connect(&in->loop, url, &(idem_connect_opts){.router = in->router}, on_ready, in),
      IDEM_OK);
  assert_int_equal(in->readies, 0);
  while (in->readies == 0) uv_run(&in->loop, UV_RUN_ONCE);
}

/* ... to what is served, until both sides know. */
static void connect_to_served(world *in) {
  connect_to(in, idem_listener_url(in->listener));
  assert_int_equal(in->ready, IDEM_OK);
  while (in->opened == 0) uv_run(&in->loop, UV_RUN_ONCE);
}

static void finish(world *in) {
  if (in->listener) idem_listener_stop(in->listener, on_stopped, in);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(in->opened, in->closed);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  idem_router_free(in->router);
}

static void on_answer(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  world *in = user;
  if (response->status == IDEM_OK) in->answers++;
}

static void call(world *in, const char *method) {
  assert_int_equal(idem_call_json(in->client, method, "[1]", 3, NULL, on_answer, in, NULL),
                   IDEM_OK);
}

/* ---------------------------------------------------------------------------- addresses */

static void urls_are_read_strictly(void **state) {
  (void)state;
  static const char *const good[] = {"stdio:",        "stdio+lsp:",        "tcp://127.0.0.1:80",
                                     "tcp://[::1]:0", "tcp://localhost:1", "tcp+lsp://a.b:65535",
                                     "unix:/a/b",     "unix:///a/b",       "unix+lsp:relative"};
  static const char *const bad[] = {"",
                                    "stdio",
                                    "stdio:x",
                                    "tcp:127.0.0.1:80",
                                    "tcp://127.0.0.1",
                                    "tcp://:80",
                                    "tcp://a:65536",
                                    "tcp://a:-1",
                                    "tcp://a:",
                                    "tcp://::1:80",
                                    "tcp://[::1]",
                                    "tcp://[::1]80",
                                    "tcp://a:1x",
                                    "unix:",
                                    "ftp://a:1"};
  idem__url url;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_int_equal(idem__url_parse(good[i], &url), IDEM_OK);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(idem__url_parse(bad[i], &url), IDEM_E_INVAL);
  }
  char path[300] = "unix:/";
  memset(path + 6, 'a', 200);
  assert_int_equal(idem__url_parse(path, &url), IDEM_E_INVAL);
}

static void what_is_no_address_is_refused(void **state) {
  (void)state;
  world in;
  set_up(&in);
  idem_serve_opts opts = opts_of(&in);
  assert_int_equal(idem_serve(&in.loop, "carrier-pigeon:", &opts, &in.listener), IDEM_E_INVAL);
  assert_null(in.listener);
  assert_int_equal(idem_serve(&in.loop, "unix:/nonexistent/x", &opts, &in.listener), IDEM_E_SYS);
  assert_null(in.listener);
  assert_int_equal(idem_connect(&in.loop, "stdio:", &(idem_connect_opts){0}, on_ready, &in),
                   IDEM_E_INVAL);
  finish(&in);
}

/* --------------------------------------------------------------------------- conversations */

static void a_client_calls_and_is_called(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  connect_to_served(&in);
  assert_ptr_equal(idem_conn_loop(in.client), &in.loop);
  assert_null(idem_conn_data(in.client));
  idem_conn_set_data(in.client, &in);
  assert_ptr_equal(idem_conn_data(in.client), &in);
  call(&in, "echo");
  while (in.answers < 1) uv_run(&in.loop, UV_RUN_ONCE);
  idem_conn *client = in.client;
  in.client = in.served;
  call(&in, "echo");
  while (in.answers < 2) uv_run(&in.loop, UV_RUN_ONCE);
  idem_conn_close(client);
  finish(&in);
  assert_true(in.stopped);
}

static void a_conn_closed_between_turns_goes_away(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  connect_to_served(&in);
  idem_conn_close(in.client);
  while (in.closed == 0) uv_run(&in.loop, UV_RUN_ONCE); /* the server sees the end of it */
  finish(&in);
}

static void a_refused_connection_is_told_once(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  char url[64];
  snprintf(url, sizeof url, "%s", idem_listener_url(in.listener));
  idem_listener_stop(in.listener, on_stopped, &in);
  in.listener = NULL;
  while (!in.stopped) uv_run(&in.loop, UV_RUN_ONCE);
  connect_to(&in, url);
  assert_int_equal(in.ready, IDEM_E_SYS);
  assert_null(in.client);
  finish(&in);
  assert_int_equal(in.readies, 1);
}

static int port_of(const world *in) {
  return atoi(strrchr(idem_listener_url(in->listener), ':') + 1);
}

/* Not a literal to us, yet known to the system without asking anyone. */
static void a_name_is_looked_up(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  char url[64];
  snprintf(url, sizeof url, "tcp://127.1:%d", port_of(&in));
  connect_to(&in, url);
  assert_int_equal(in.ready, IDEM_OK);
  idem_conn_close(in.client);
  finish(&in);
}

static int raw_client(const world *in) {
  idem__address to;
  idem__url url = {.host = "127.0.0.1", .port = (uint16_t)port_of(in)};
  size_t count;
  assert_int_equal(idem__address_literal(&url, &to, &count), IDEM_OK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&to.storage, to.len), 0);
  return fd;
}

/* A plain socket whose request is with its handler. */
static int ask_to_keep(world *in) {
  static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}\n";
  int fd = raw_client(in);
  assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
  while (!in->kept) uv_run(&in->loop, UV_RUN_ONCE);
  return fd;
}

static void reset(int fd) {
  struct linger now = {.l_onoff = 1};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

static void a_reset_cancels_what_was_asked(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  int fd = ask_to_keep(&in);
  reset(fd);
  while (in.cancelled == 0) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.reason, IDEM_CANCEL_CLOSED);
  finish(&in);
}

/* First the end of its input, which cancels nothing; then it is gone. */
static void a_reset_after_a_half_close_cancels_as_well(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  int fd = ask_to_keep(&in);
  shutdown(fd, SHUT_WR);
  for (int i = 0; i < 3; i++) uv_run(&in.loop, UV_RUN_NOWAIT);
  assert_int_equal(in.cancelled, 0);
  reset(fd);
  while (in.cancelled == 0) uv_run(&in.loop, UV_RUN_ONCE);
  finish(&in);
}

static void a_stop_cancels_what_does_not_finish(void **state) {
  (void)state;
  world in;
  set_up(&in);
  idem_serve_opts opts = opts_of(&in);
  opts.grace_ms = 1;
  assert_int_equal(idem_serve(&in.loop, "tcp://127.0.0.1:0", &opts, &in.listener), IDEM_OK);
  int fd = ask_to_keep(&in);
  finish(&in);
  assert_int_equal(in.cancelled, 1);
  char answer[256];
  ssize_t n = read(fd, answer, sizeof answer - 1);
  assert_true(n > 0);
  answer[n] = 0;
  assert_non_null(strstr(answer, "\"id\":1,\"error\""));
  close(fd);
}

/* ------------------------------------------------------------------------------- floods */

enum { FLOOD = 3000, FLOOD_BYTES = 16 * 1024 };

static char flood_params[FLOOD_BYTES];

static void keep_asking(world *in, idem_conn *conn, int *left);

typedef struct side {
  world *in;
  int left;
  int answered;
} side;

static side sides[2];

static void on_flood_answer(idem_conn *conn, const idem_response *response, void *user) {
  side *self = user;
  /* Held back while the other side floods, requests may become too many and be refused. */
  if (response->status != IDEM_OK && response->status != IDEM_E_REMOTE) return;
  self->answered++;
  if (response->status == IDEM_OK) self->in->answers++;
  keep_asking(self->in, conn, &self->left);
}

/* As much as the queue takes; the rest when answers come. */
static void keep_asking(world *in, idem_conn *conn, int *left) {
  side *self = left == &sides[0].left ? &sides[0] : &sides[1];
  while (*left > 0 && idem_call_json(conn, "echo", flood_params, sizeof flood_params, NULL,
                                     on_flood_answer, self, NULL) == IDEM_OK) {
    --*left;
  }
  size_t queued = idem_conn_queued(conn);
  if (queued > in->most_queued) in->most_queued = queued;
}

static void two_peers_that_flood_each_other_do_not_lock(void **state) {
  (void)state;
  world in;
  set_up_serving(&in);
  memset(flood_params, '1', sizeof flood_params);
  flood_params[0] = '[';
  flood_params[sizeof flood_params - 1] = ']';
  connect_to_served(&in);
  sides[0] = sides[1] = (side){.in = &in, .left = FLOOD};
  keep_asking(&in, in.client, &sides[0].left);
  keep_asking(&in, in.served, &sides[1].left);
  while (sides[0].answered < FLOOD || sides[1].answered < FLOOD) {
    uv_run(&in.loop, UV_RUN_ONCE);
  }
  size_t limit = idem_policy_preset(IDEM_PROFILE_JSONRPC).limits.queued_output_bytes;
  assert_true(in.most_queued <= 2 * limit);
  assert_true(in.answers > FLOOD / 2);
  idem_conn_close(in.client);
  finish(&in);
}

/* ------------------------------------------------------------------- stdio in an embedder */

typedef struct standard {
  int saved[2];
} standard;

static standard save_standard(void) {
  fflush(stdout);
  return (standard){{dup(0), dup(1)}};
}

static void restore_standard(const standard *before) {
  for (int i = 0; i < 2; i++) {
    dup2(before->saved[i], i);
    close(before->saved[i]);
  }
}

/* The process keeps SIGPIPE as it is, and does not die of it. */
static void stdio_without_a_reader_does_not_kill_an_embedder(void **state) {
  (void)state;
  int in_pipe[2], out_pipe[2];
  standard before = save_standard();
  assert_int_equal(pipe2(in_pipe, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out_pipe, O_CLOEXEC), 0);
  dup2(in_pipe[0], 0);
  dup2(out_pipe[1], 1);
  close(out_pipe[1]);
  world in;
  set_up(&in);
  serve(&in, "stdio:");
  close(out_pipe[0]);
  dup2(2, 1); /* nothing but the runtime has the pipe now */
  static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}\n";
  signal(SIGPIPE, SIG_DFL);
  assert_int_equal(write(in_pipe[1], text, sizeof text - 1), sizeof text - 1);
  while (in.closed == 0) uv_run(&in.loop, UV_RUN_ONCE);
  finish(&in);
  restore_standard(&before);
  close(in_pipe[0]);
  close(in_pipe[1]);
}

static void stdio_is_served_once_at_a_time(void **state) {
  (void)state;
  world in;
  set_up(&in);
  int ends[2];
  standard before = save_standard();
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  dup2(ends[0], 0);
  serve(&in, "stdio:");
  idem_listener *second;
  idem_serve_opts opts = opts_of(&in);
  assert_int_equal(idem_serve(&in.loop, "stdio+lsp:", &opts, &second), IDEM_E_STATE);
  close(ends[1]);
  while (in.closed == 0) uv_run(&in.loop, UV_RUN_ONCE);
  finish(&in);
  struct stat now, given;
  assert_int_equal(fstat(0, &now) | fstat(ends[0], &given), 0);
  assert_int_equal(now.st_ino, given.st_ino); /* given back */
  restore_standard(&before);
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls_are_read_strictly),
      cmocka_unit_test(what_is_no_address_is_refused),
      cmocka_unit_test(a_client_calls_and_is_called),
      cmocka_unit_test(a_conn_closed_between_turns_goes_away),
      cmocka_unit_test(a_refused_connection_is_told_once),
      cmocka_unit_test(a_name_is_looked_up),
      cmocka_unit_test(a_reset_cancels_what_was_asked),
      cmocka_unit_test(a_reset_after_a_half_close_cancels_as_well),
      cmocka_unit_test(a_stop_cancels_what_does_not_finish),
      cmocka_unit_test(two_peers_that_flood_each_other_do_not_lock),
      cmocka_unit_test(stdio_without_a_reader_does_not_kill_an_embedder),
      cmocka_unit_test(stdio_is_served_once_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
