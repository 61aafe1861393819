/* test_runner.c - a runner says that its program has ended before it removes the program's folder, which may take
 * longer than the program had. */
#include "support/unit.h"

#include "program/confine.h"
#include "program/order.h"
#include "program/scratch.h"
#include "program/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int gate[2];

/* In place of scratch.c: a folder that is not gone before the test says so. */
void scratch_remove(const char *path) {
  char byte;
  (void)path;
  if (read(gate[0], &byte, 1) != 1) _exit(9);
}

/* In place of confine.c: nothing is confined here. */
int confine_files(int rules) {
  (void)rules;
  return 0;
}

static pid_t start(int *socket) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(pair[0]);
    close(gate[1]);
    sleep_prepare();
    runner_main(pair[1]);
  }
  close(pair[1]);
  close(gate[0]);
  *socket = pair[0];
  return pid;
}

static order_note next_note(int socket) {
  static order_packet packet;
  order_receive(socket, &packet, true);
  assert_true(packet.len > 0);
  return order_note_of(&packet);
}

static void the_end_is_told_before_the_folder_goes(void **state) {
  int socket, status, nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  char *const argv[] = {(char *)(uintptr_t) "true", NULL}, *const environment[] = {NULL};
  (void)state;
  assert_int_equal(pipe(gate), 0);
  pid_t pid = start(&socket);
  spawn_order order = {.program = "/bin/true",
                       .argv = argv,
                       .environment = environment,
                       .cwd = "/",
                       .scratch = "/a/folder",
                       .rules = -1,
                       .input = -1,
                       .output = nothing,
                       .errors = nothing};
  assert_int_equal(order_run_send(socket, &order), 0);
  assert_int_equal(next_note(socket).kind, REPORT_TIDYING);
  struct pollfd heard = {.fd = socket, .events = POLLIN};
  assert_int_equal(poll(&heard, 1, 0), 0);
  assert_int_equal(write(gate[1], "x", 1), 1);
  order_note end = next_note(socket);
  if (end.kind == REPORT_FAILED) fail_msg("not started: %s", strerror(end.value));
  assert_int_equal(end.kind, REPORT_EXITED);
  assert_int_equal(end.value, 0);
  close(socket);
  close(gate[1]);
  close(nothing);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_end_is_told_before_the_folder_goes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
