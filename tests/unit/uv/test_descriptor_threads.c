/* test_descriptor_threads.c - a descriptor that libuv has closed is another thread's to have: the thread sanitizer must know that it was
 * closed (tests/tsan/close.c), or every number that is used again would be a race, and real ones could not be told. */
#include "support/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum { TRIES = 64 };

/* No word goes from one thread to the other that would order what they do. */
static atomic_int closed;

static void *have_it(void *arg) {
  int number, opened[TRIES], count = 0;
  struct stat about;
  (void)arg;
  while (!(number = atomic_load_explicit(&closed, memory_order_relaxed))) sched_yield();
  do opened[count] = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
  while (opened[count++] != number && count < TRIES);
  bool same = opened[count - 1] == number && fstat(number, &about) == 0;
  while (count > 0) close(opened[--count]);
  return same ? arg : NULL;
}

static void what_libuv_has_closed_may_be_had_by_another_thread(void **state) {
  (void)state;
  uv_loop_t loop;
  uv_pipe_t handle;
  pthread_t other;
  int ends[2];
  void *same;
  assert_int_equal(pthread_create(&other, NULL, have_it, &closed), 0);
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  assert_int_equal(uv_pipe_init(&loop, &handle, 0), 0);
  assert_int_equal(uv_pipe_open(&handle, ends[0]), 0);
  uv_close((uv_handle_t *)&handle, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  atomic_store_explicit(&closed, ends[0], memory_order_relaxed);
  assert_int_equal(pthread_join(other, &same), 0);
  assert_ptr_equal(same, &closed);
  close(ends[1]);
  assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_libuv_has_closed_may_be_had_by_another_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
