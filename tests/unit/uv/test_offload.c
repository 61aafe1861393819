/* test_offload.c - libuv's threads: had before they are needed, or told that they cannot be. libuv itself would abort. */
#include "support/unit.h"

#include <idem/uv.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum { FINE = 0, NOT_LIMITED = 2, NOT_TOLD = 3, NOT_TOLD_LATER = 4 };
#define NOBODY 65534

static void work(void *job) { (void)job; }
static void after(idem_request *request, void *job) { (void)request, (void)job; }

/* Limits of processes are not root's. */
static int without_threads(void) {
  struct rlimit none = {0, 0};
  uv_loop_t loop;
  if (uv_loop_init(&loop) != 0) return NOT_LIMITED;
  if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) return NOT_LIMITED;
  if (setrlimit(RLIMIT_NPROC, &none) != 0) return NOT_LIMITED;
  if (idem_offload_ready() != IDEM_E_SYS) return NOT_TOLD;
  return idem_offload(&loop, NULL, work, after, NULL) == IDEM_E_SYS ? FINE : NOT_TOLD_LATER;
}

static void threads_that_cannot_be_had_are_told_of(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(without_threads());
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status)); /* not by a signal */
  assert_int_equal(WEXITSTATUS(status), FINE);
}

static void threads_are_made_once(void **state) {
  (void)state;
  assert_int_equal(idem_offload_ready(), IDEM_OK);
  assert_int_equal(idem_offload_ready(), IDEM_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(threads_that_cannot_be_had_are_told_of),
                                     cmocka_unit_test(threads_are_made_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
