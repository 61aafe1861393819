/* test_samples.c - an hour of a server in numbers: as many samples as it has, the oldest leaving first, in 64 KiB. */
#include "support/unit.h"

#include "page/samples.h"

typedef struct heard {
  size_t count;
  sample last;
} heard;

static void on_sample(void *user, const sample *taken) {
  heard *self = user;
  self->count++;
  self->last = *taken;
}

typedef struct hour {
  uv_loop_t loop;
  program_host programs;
  samples samples;
  heard heard;
} hour;

static void begin(hour *self) {
  *self = (hour){.heard = {.count = 0}};
  idem_list_init(&self->programs.running);
  idem_list_init(&self->programs.kept);
  assert_int_equal(uv_loop_init(&self->loop), 0);
  samples_init(&self->samples, &self->programs, on_sample, &self->heard);
  samples_start(&self->samples, &self->loop);
}

static void end(hour *self) {
  uv_close((uv_handle_t *)&self->samples.timer, NULL);
  uv_run(&self->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&self->loop), 0);
  samples_deinit(&self->samples);
}

static void a_timer_of_samples_keeps_no_loop_alive(void **state) {
  hour self;
  (void)state;
  begin(&self);
  assert_int_equal(uv_run(&self.loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(self.heard.count, 0);
  end(&self);
}

static void an_hour_is_kept_and_no_more(void **state) {
  hour self;
  (void)state;
  begin(&self);
  for (size_t i = 0; i < SAMPLES_KEPT; i++) {
    assert_int_equal(samples_count(&self.samples), i);
    samples_take(&self.samples);
  }
  uint64_t second = samples_at(&self.samples, 1)->wall_us;
  samples_take(&self.samples);
  assert_int_equal(samples_count(&self.samples), SAMPLES_KEPT);
  assert_int_equal(samples_at(&self.samples, 0)->wall_us, second);
  assert_int_equal(samples_at(&self.samples, SAMPLES_KEPT - 1)->wall_us, self.heard.last.wall_us);
  assert_int_equal(self.heard.count, SAMPLES_KEPT + 1);
  for (size_t i = 1; i < SAMPLES_KEPT; i++)
    assert_true(samples_at(&self.samples, i)->wall_us >= samples_at(&self.samples, i - 1)->wall_us);
  assert_true(self.heard.last.memory > 0);
  end(&self);
}

static void every_sample_that_is_kept_fits_into_what_a_reader_is_sent_first(void **state) {
  static const sample largest = {.wall_us = UINT64_MAX,
                                 .memory = UINT64_MAX,
                                 .requests = UINT32_MAX,
                                 .errors = UINT32_MAX,
                                 .p50_us = UINT32_MAX,
                                 .p95_us = UINT32_MAX,
                                 .p99_us = UINT32_MAX,
                                 .sessions = UINT32_MAX,
                                 .connections = UINT32_MAX,
                                 .processes = UINT32_MAX};
  idem_buf out;
  (void)state;
  idem_buf_init(&out, NULL, (size_t)192 * 1024); /* of 256 KiB, 64 of which are log lines */
  for (size_t i = 0; i < SAMPLES_KEPT; i++)
    assert_int_equal(record_put_sample(&out, &largest), IDEM_OK);
  idem_buf_deinit(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_timer_of_samples_keeps_no_loop_alive),
      cmocka_unit_test(an_hour_is_kept_and_no_more),
      cmocka_unit_test(every_sample_that_is_kept_fits_into_what_a_reader_is_sent_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
