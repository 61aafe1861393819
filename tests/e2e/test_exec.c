/* test_exec.c - programs as peers ("exec:"): asked, flooding, leaving in every way there is. No test
 * leaves a process or a descriptor behind. */
#include "child.h"
#include "support/unit.h"

#include <idem/uv.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

typedef struct world {
  uv_loop_t loop;
  uv_timer_t watch;
  idem_router *router;
  idem_conn *conn;
  int readies, opened, closed, answers, protocol_errors;
  size_t stderr_bytes;
  idem_status ready, last;
  size_t result_len;
  int64_t code;
  idem_close_reason reason; /* what it points to is copied */
  char text[128];
  char errors[4097];
  int files; /* open before */
} world;

/* ------------------------------------------------------------------------- the world */

static int count_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  assert_non_null(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void on_watch(uv_timer_t *timer) {
  const world *in = timer->data;
  fail_msg("%d ready, %d answers, %d closed", in->readies, in->answers, in->closed);
}

static void set_up(world *in) {
  *in = (world){.files = count_files()};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->watch);
  in->watch.data = in;
  uv_timer_start(&in->watch, on_watch, 60000, 0);
  uv_unref((uv_handle_t *)&in->watch);
}

/* All that is left of the loop, then of the process. */
static void tear_down(world *in) {
  uv_run(&in->loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&in->watch, NULL);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  assert_int_equal(in->opened, in->closed);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
  assert_int_equal(count_files(), in->files);
  idem_router_free(in->router);
}

static void on_open(idem_conn *conn, void *user) {
  (void)conn;
  ((world *)user)->opened++;
}

static void on_close(idem_conn *conn, void *user) {
  world *in = user;
  in->closed++;
  in->conn = NULL;
  in->reason = idem_conn_close_reason(conn);
  snprintf(in->text, sizeof in->text, "%s", in->reason.text);
  assert_true(in->reason.errors_len <= 4096);
  memcpy(in->errors, in->reason.errors, in->reason.errors_len);
  in->errors[in->reason.errors_len] = 0;
}

static void on_stderr(idem_conn *conn, const char *data, size_t len, void *user) {
  world *in = user;
  assert_ptr_equal(conn, in->conn ? in->conn : conn);
  assert_non_null(data);
  in->stderr_bytes += len;
}

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  (void)conn, (void)error;
  ((world *)user)->protocol_errors++;
}

static void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  in->ready = status;
  in->conn = conn;
}

static idem_status try_start(world *in, const char *url, idem_client_opts client) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.answer_junk = false;
  if (!client.exit_ms) client.exit_ms = 5000;
  idem_connect_opts opts = {.router = in->router,
                            .policy = &policy,
                            .client = &client,
                            .on_open = on_open,
                            .on_close = on_close,
                            .on_stderr = on_stderr,
                            .on_protocol_error = on_protocol_error,
                            .user = in};
  return idem_connect(&in->loop, url, &opts, on_ready, in);
}

static void start(world *in, const char *url, idem_client_opts client) {
  set_up(in);
  assert_int_equal(try_start(in, url, client), IDEM_OK);
  assert_int_equal(in->readies, 0);
  while (!in->readies) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(in->ready, IDEM_OK);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SHELL(script) ARGV("/bin/sh", "-c", script)
#define START(in, ...) start(in, "exec:", (idem_client_opts){.argv = ARGV(__VA_ARGS__)})

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  (void)conn;
  in->answers++;
  in->last = response->status;
  in->code = response->code;
  in->result_len = yyjson_get_len(yyjson_arr_get_first(response->result));
}

static void call(world *in, const char *method, const char *params) {
  assert_int_equal(
      idem_call_json(in->conn, method, params, strlen(params), NULL, on_response, in, NULL),
      IDEM_OK);
}

static void wait_for(world *in, int answers) {
  while (in->answers < answers) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(in->answers, answers);
}

static void end(world *in) {
  if (in->conn) idem_conn_close(in->conn);
  while (!in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  tear_down(in);
}

static void wait_for_end(world *in) {
  while (!in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  tear_down(in);
}

/* Not there, or only waiting for a parent that does not care. */
static bool is_gone(pid_t pid) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "r");
  if (!file) return true;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(file);
  return state == 'Z' || state == 'X';
}

static void wait_until_gone(pid_t pid) {
  assert_true(pid > 1);
  for (uint64_t until = child_now_ms() + 60000; !is_gone(pid);) {
    assert_true(child_now_ms() < until);
    usleep(1000);
  }
}

/* --------------------------------------------------------------------------- speaking */

static void a_program_answers_and_ends_with_its_conn(void **state) {
  (void)state;
  static char large[1 << 20];
  world in;
  memset(large, 'x', sizeof large);
  large[0] = '[', large[1] = '"';
  memcpy(large + sizeof large - 3, "\"]", 3);
  START(&in, REFERENCE, "--log-level", "error");
  for (int i = 0; i < 50; i++) call(&in, "echo", "[\"a\"]");
  wait_for(&in, 50);
  for (int i = 0; i < 3; i++) call(&in, "echo", large);
  wait_for(&in, 53);
  assert_int_equal(in.last, IDEM_OK);
  assert_int_equal(in.result_len, sizeof large - 5);
  end(&in);
  assert_string_equal(in.text, "exit status 0");
  assert_int_equal(in.reason.exit_status, 0);
  assert_int_equal(in.reason.signal, 0);
}

static void a_program_may_frame_with_content_length(void **state) {
  (void)state;
  world in;
  start(&in,
        "exec+lsp:", (idem_client_opts){.argv = ARGV(REFERENCE, "--framing", "content-length")});
  call(&in, "echo", "[\"abc\"]");
  wait_for(&in, 1);
  assert_int_equal(in.result_len, 3);
  end(&in);
  assert_int_equal(in.reason.exit_status, 0);
}

/* cat is asked, asks the same back, and repeats our refusal, which is then its answer. */
static void both_sides_may_ask(void **state) {
  (void)state;
  world in;
  START(&in, "cat"); /* found in PATH */
  call(&in, "anything", "[]");
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_E_REMOTE);
  assert_int_equal(in.code, -32601);
  end(&in);
  assert_string_equal(in.text, "exit status 0");
}

static void stray_output_is_told_and_harms_nothing(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "echo Welcome; exec \"$0\"", REFERENCE);
  call(&in, "echo", "[\"abc\"]");
  wait_for(&in, 1);
  assert_int_equal(in.result_len, 3);
  assert_int_equal(in.protocol_errors, 1);
  end(&in);
}

static void arguments_environment_and_folder_arrive_as_they_are(void **state) {
  (void)state;
  world in;
  start(
      &in, "exec:",
      (idem_client_opts){.argv = ARGV("/bin/sh", "-c",
                                      "echo \"$PWD|$ONE|$HOME|$1\" >&2; trap - PIPE; kill -PIPE $$",
                                      "sh", "$(id); `id` 'x'"),
                         .environment = ARGV("ONE=1", "PATH=/bin:/usr/bin"),
                         .folder = "/usr"});
  wait_for_end(&in);
  assert_string_equal(in.errors, "/usr|1||$(id); `id` 'x'\n");
  assert_int_equal(in.reason.signal, SIGPIPE); /* signals are as a new process has them */
}

/* -------------------------------------------------------------------------- the end */

static void an_exit_status_is_the_reason_of_the_close(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "read line; echo trouble >&2; exit 3");
  call(&in, "echo", "[]");
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_E_CLOSED);
  wait_for_end(&in);
  assert_string_equal(in.text, "exit status 3");
  assert_int_equal(in.reason.exit_status, 3);
  assert_string_equal(in.errors, "trouble\n");
  assert_int_equal(in.stderr_bytes, 8);
}

static void a_program_gone_at_once_was_still_ready(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/true");
  wait_for_end(&in);
  assert_string_equal(in.text, "exit status 0");
}

static void a_signal_is_the_reason_of_the_close(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "kill -SEGV $$");
  wait_for_end(&in);
  assert_memory_equal(in.text, "signal 11 (", 11);
  assert_int_equal(in.reason.exit_status, -1);
  assert_int_equal(in.reason.signal, SIGSEGV);
}

/* What it said last is heard, though it is gone before anybody looks. */
static void the_last_words_of_a_program_are_heard(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c",
        "read line; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"abcd\"]}'; exit 4");
  call(&in, "echo", "[]");
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_OK);
  assert_int_equal(in.result_len, 4);
  wait_for_end(&in);
  assert_int_equal(in.reason.exit_status, 4);
}

static void who_stays_after_the_end_of_input_is_asked_to_go(void **state) {
  (void)state;
  world in;
  start(&in, "exec:", (idem_client_opts){.argv = ARGV("sleep", "1000"), .exit_ms = 30});
  end(&in);
  assert_int_equal(in.reason.signal, SIGTERM);
  assert_non_null(strstr(in.text, "sent by us"));
}

static void who_ignores_that_is_ended(void **state) {
  (void)state;
  world in;
  uint64_t before = child_now_ms();
  start(
      &in, "exec:",
      (idem_client_opts){.argv = SHELL("trap '' TERM; echo set >&2; while :; do sleep 1000; done"),
                         .exit_ms = 50});
  while (!in.stderr_bytes) uv_run(&in.loop, UV_RUN_ONCE);
  end(&in);
  assert_int_equal(in.reason.signal, SIGKILL);
  assert_non_null(strstr(in.text, "sent by us"));
  assert_true(child_now_ms() - before >= 100);
}

static void who_is_stopped_is_ended_too(void **state) {
  (void)state;
  world in;
  start(&in, "exec:",
        (idem_client_opts){.argv = SHELL("echo here >&2; kill -STOP $$; exit 1"), .exit_ms = 50});
  while (!in.stderr_bytes) uv_run(&in.loop, UV_RUN_ONCE);
  end(&in);
  assert_int_equal(in.reason.signal, SIGTERM);
}

static void a_program_that_ends_its_output_is_over(void **state) {
  (void)state;
  world in;
  start(&in, "exec:",
        (idem_client_opts){.argv =
                               SHELL("read line; exec >&-; while read line; do :; done; exit 5")});
  call(&in, "echo", "[]");
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_E_CLOSED);
  wait_for_end(&in);
  assert_int_equal(in.reason.exit_status, 5);
}

/* SIGPIPE would end a process that has not ignored it. */
static void a_program_that_ends_its_input_is_over(void **state) {
  (void)state;
  world in;
  start(&in, "exec:",
        (idem_client_opts){.argv = SHELL("exec <&-; echo closed >&2; exec sleep 1000"),
                           .exit_ms = 50});
  while (!in.stderr_bytes) uv_run(&in.loop, UV_RUN_ONCE);
  pid_t self = getpid();
  call(&in, "echo", "[]");
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_E_CLOSED);
  assert_int_equal(getpid(), self);
  assert_int_equal(in.closed, 0); /* the program is still there */
  in.conn = NULL;
  uv_run(&in.loop, UV_RUN_DEFAULT);
  assert_int_equal(in.reason.signal, SIGTERM);
  tear_down(&in);
}

/* It writes on after its input has ended, more than a pipe holds: it is not asked to go before it has
 * had the time to finish. */
static void what_a_program_still_says_does_not_hold_it_up(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "cat >/dev/null; yes | head -c 1000000; exit 7");
  end(&in);
  assert_int_equal(in.reason.exit_status, 7);
}

/* ---------------------------------------------------------------- what it leaves behind */

static void its_group_ends_with_a_program(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "trap '' TERM HUP; sleep 1000 & echo $! >&2; exit 0");
  wait_for_end(&in);
  assert_int_equal(in.reason.exit_status, 0);
  wait_until_gone((pid_t)strtol(in.errors, NULL, 10));
}

/* A process in a session of its own is nobody's business, but the conn is over all the same. */
static void who_left_the_group_cannot_hold_the_conn_open(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c",
        "setsid sleep 1000 & echo $! >&2;"
        "until [ \"$(cut -d' ' -f6 /proc/$!/stat)\" = $! ]; do sleep 0.01; done; exit 8");
  wait_for_end(&in);
  assert_int_equal(in.reason.exit_status, 8);
  pid_t escaped = (pid_t)strtol(in.errors, NULL, 10);
  assert_false(is_gone(escaped));
  kill(escaped, SIGKILL);
  wait_until_gone(escaped);
}

static void on_event(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  *(bool *)poll->data = true;
  uv_poll_stop(poll);
}

/* The number of its input, closed long before the program ends, is another's by then. */
static void the_end_of_a_program_touches_no_other_descriptor(void **state) {
  (void)state;
  world in;
  uv_poll_t poll;
  bool ready = false;
  int probe[2];
  set_up(&in);
  assert_int_equal(pipe2(probe, O_CLOEXEC), 0); /* the numbers of its first pipe, its input */
  close(probe[0]);
  close(probe[1]);
  idem_client_opts client = {.argv = SHELL("cat; echo ended >&2; exec sleep 1000"), .exit_ms = 100};
  assert_int_equal(try_start(&in, "exec:", client), IDEM_OK);
  while (!in.readies) uv_run(&in.loop, UV_RUN_ONCE);
  idem_conn_close(in.conn);
  while (!in.stderr_bytes) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(fcntl(probe[1], F_GETFD), -1);
  assert_int_equal(eventfd(0, EFD_CLOEXEC), probe[0]);
  assert_int_equal(eventfd(0, EFD_CLOEXEC), probe[1]);
  assert_int_equal(uv_poll_init(&in.loop, &poll, probe[1]), 0);
  poll.data = &ready;
  uv_poll_start(&poll, UV_READABLE, on_event);
  while (!in.closed) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(eventfd_write(probe[1], 1), 0);
  while (!ready) uv_run(&in.loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&poll, NULL);
  close(probe[0]);
  close(probe[1]);
  tear_down(&in);
}

static void a_flood_of_complaints_is_read_and_bounded(void **state) {
  (void)state;
  world in;
  START(&in, "/bin/sh", "-c", "yes complaint | head -c 20000000 >&2; echo last >&2; exec cat");
  call(&in, "anything", "[]");
  wait_for(&in, 1);
  end(&in);
  assert_int_equal(in.stderr_bytes, 20000005);
  assert_int_equal(in.reason.errors_len, 4096);
  assert_string_equal(in.errors + 4096 - 6, "\nlast\n");
}

/* ------------------------------------------------------------------------- refusals */

static void what_cannot_be_started_is_refused(void **state) {
  (void)state;
  world in;
  set_up(&in);
  const char *const none[] = {NULL};
  idem_listener *listener;
  assert_int_equal(try_start(&in, "exec:", (idem_client_opts){0}), IDEM_E_INVAL);
  assert_int_equal(try_start(&in, "exec:", (idem_client_opts){.argv = none}), IDEM_E_INVAL);
  assert_int_equal(try_start(&in, "exec:cat", (idem_client_opts){.argv = ARGV("cat")}),
                   IDEM_E_INVAL);
  assert_int_equal(idem_connect(&in.loop, "exec:", &(idem_connect_opts){0}, on_ready, &in),
                   IDEM_E_INVAL);
  assert_int_equal(idem_serve(&in.loop, "exec:", &(idem_serve_opts){0}, &listener), IDEM_E_INVAL);
  assert_int_equal(try_start(&in, "exec:", (idem_client_opts){.argv = ARGV("/no/such/program")}),
                   IDEM_E_SYS);
  assert_int_equal(try_start(&in, "exec:", (idem_client_opts){.argv = ARGV("cat; true")}),
                   IDEM_E_SYS);
  assert_int_equal(try_start(&in, "exec:", (idem_client_opts){.argv = ARGV("/etc/passwd")}),
                   IDEM_E_SYS);
  assert_int_equal(
      try_start(&in, "exec:", (idem_client_opts){.argv = ARGV("cat"), .folder = "/no/folder"}),
      IDEM_E_SYS);
  assert_int_equal(in.readies, 0);
  tear_down(&in);
}

/* Every number of descriptors but the right one. */
static void without_descriptors_there_is_no_program(void **state) {
  (void)state;
  world in;
  set_up(&in);
  assert_int_equal(uv_run(&in.loop, UV_RUN_NOWAIT), 0); /* the loop has what it needs */
  struct rlimit before, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = (struct rlimit){100, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int free_files = 0; free_files < 6; free_files++) {
    int taken[100], count = 0;
    while (count < 100 && (taken[count] = dup(0)) >= 0) count++;
    assert_true(count < 100 && count > free_files);
    for (int i = 0; i < free_files; i++) close(taken[--count]);
    assert_int_equal(try_start(&in, "exec:", (idem_client_opts){.argv = ARGV("cat")}), IDEM_E_SYS);
    while (count > 0) close(taken[--count]);
    uv_run(&in.loop, UV_RUN_NOWAIT);
  }
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  tear_down(&in);
}

/* ------------------------------------------------------------------------- the loop */

static void on_server_loop(uv_loop_t *loop, void *user) {
  const idem_client_opts client = {
      .argv = SHELL("trap '' TERM; echo $$ >&3; cat >/dev/null; while :; do sleep 1000; done")};
  idem_connect_opts opts = {.client = &client};
  static world in;
  assert_int_equal(idem_connect(loop, "exec:", &opts, on_ready, &in), IDEM_OK);
  (void)user;
}

/* idem_run's loop ends, and with it the program, however deaf it is. */
static void a_program_ends_with_the_loop_of_idem_run(void **state) {
  (void)state;
  int told[2], input[2];
  assert_int_equal(pipe(told), 0);
  assert_int_equal(pipe(input), 0);
  pid_t server = fork();
  if (server == 0) {
    dup2(told[1], 3);
    dup2(input[0], 0);
    dup2(2, 1);
    close(input[1]);
    const char *const urls[] = {"stdio:"};
    idem_log *log;
    idem_log_open(&(idem_log_setup){.level = IDEM_LOG_ERROR}, &log);
    int code = idem_run(urls, 1, &(idem_serve_opts){.on_loop = on_server_loop, .log = log});
    idem_log_free(log);
    _exit(code);
  }
  close(told[1]);
  close(input[0]);
  pid_t program = (pid_t)strtol(child_line(told[0]), NULL, 10);
  assert_true(program > 1 && !is_gone(program));
  close(input[1]);
  int status;
  uint64_t before = child_now_ms();
  assert_int_equal(waitpid(server, &status, 0), server);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_true(child_now_ms() - before < 60000);
  assert_true(is_gone(program));
  close(told[0]);
}

/* Libuv makes a pipe for signals once in a process. */
static int have_signals(void **state) {
  (void)state;
  uv_loop_t loop;
  uv_signal_t handle;
  uv_loop_init(&loop);
  uv_signal_init(&loop, &handle);
  uv_signal_start(&handle, NULL, SIGCHLD);
  uv_close((uv_handle_t *)&handle, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_program_answers_and_ends_with_its_conn),
      cmocka_unit_test(a_program_may_frame_with_content_length),
      cmocka_unit_test(both_sides_may_ask),
      cmocka_unit_test(stray_output_is_told_and_harms_nothing),
      cmocka_unit_test(arguments_environment_and_folder_arrive_as_they_are),
      cmocka_unit_test(an_exit_status_is_the_reason_of_the_close),
      cmocka_unit_test(a_program_gone_at_once_was_still_ready),
      cmocka_unit_test(a_signal_is_the_reason_of_the_close),
      cmocka_unit_test(the_last_words_of_a_program_are_heard),
      cmocka_unit_test(who_stays_after_the_end_of_input_is_asked_to_go),
      cmocka_unit_test(who_ignores_that_is_ended),
      cmocka_unit_test(who_is_stopped_is_ended_too),
      cmocka_unit_test(a_program_that_ends_its_output_is_over),
      cmocka_unit_test(a_program_that_ends_its_input_is_over),
      cmocka_unit_test(what_a_program_still_says_does_not_hold_it_up),
      cmocka_unit_test(its_group_ends_with_a_program),
      cmocka_unit_test(who_left_the_group_cannot_hold_the_conn_open),
      cmocka_unit_test(the_end_of_a_program_touches_no_other_descriptor),
      cmocka_unit_test(a_flood_of_complaints_is_read_and_bounded),
      cmocka_unit_test(what_cannot_be_started_is_refused),
      cmocka_unit_test(without_descriptors_there_is_no_program),
      cmocka_unit_test(a_program_ends_with_the_loop_of_idem_run),
  };
  return cmocka_run_group_tests(tests, have_signals, NULL);
}
