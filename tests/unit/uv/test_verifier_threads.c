/* test_verifier_threads.c - the threads that look at signatures: every job is heard of once by the loop it came from, whether a thread ran it or
 * it was cancelled before; the threads end with the last loop, and begin again. */
#include "support/unit.h"
#include "uv/verifier.h"

#include <stdlib.h>

#define JOBS 400

typedef struct job {
  idem__verifying verifying;
  int ran, heard;
} job;

typedef struct loop_of_jobs {
  uv_loop_t loop;
  idem__verified verified;
  job jobs[JOBS];
  size_t heard, cancelled;
  bool cancels;
} loop_of_jobs;

static void run_job(idem__verifying *self) { IDEM_CONTAINER(self, job, verifying)->ran++; }

static void on_verified(void *user) {
  loop_of_jobs *self = user;
  for (idem__verifying *one; (one = idem__verified_next(&self->verified));) {
    job *done = IDEM_CONTAINER(one, job, verifying);
    assert_int_equal(++done->heard, 1);
    assert_int_equal(done->ran, one->cancelled ? 0 : 1);
    self->cancelled += one->cancelled;
    if (++self->heard == JOBS) idem__verified_close(&self->verified, NULL);
  }
}

static void run_jobs(loop_of_jobs *self) {
  size_t given_up = 0;
  assert_int_equal(uv_loop_init(&self->loop), 0);
  assert_int_equal(idem__verified_init(&self->verified, &self->loop, on_verified, self), IDEM_OK);
  uv_ref((uv_handle_t *)&self->verified.told);
  assert_int_equal(idem__verifier_join(), IDEM_OK);
  for (size_t i = 0; i < JOBS; i++) {
    self->jobs[i].verifying = (idem__verifying){.to = &self->verified, .run = run_job};
    idem__verifier_queue(&self->jobs[i].verifying);
  }
  for (size_t i = JOBS; self->cancels && i-- > 0;)
    given_up += idem__verifier_cancel(&self->jobs[i].verifying);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  assert_int_equal(self->heard, JOBS);
  assert_int_equal(self->cancelled, given_up);
  idem__verifier_leave();
  assert_int_equal(uv_loop_close(&self->loop), 0);
}

static void every_job_is_heard_of_once(void **state) {
  (void)state;
  for (int turn = 0; turn < 4; turn++) {
    loop_of_jobs *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->cancels = turn % 2;
    run_jobs(self);
    free(self);
  }
}

static void on_thread(void *self) { run_jobs(self); }

static void loops_share_the_threads(void **state) {
  (void)state;
  enum { LOOPS = 3 };
  loop_of_jobs *loops = calloc(LOOPS, sizeof *loops);
  uv_thread_t threads[LOOPS];
  assert_non_null(loops);
  for (int i = 0; i < LOOPS; i++) {
    loops[i].cancels = i == 1;
    assert_int_equal(uv_thread_create(&threads[i], on_thread, &loops[i]), 0);
  }
  for (int i = 0; i < LOOPS; i++) uv_thread_join(&threads[i]);
  free(loops);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_job_is_heard_of_once),
      cmocka_unit_test(loops_share_the_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
