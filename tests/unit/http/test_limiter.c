/* test_limiter.c - a rate limit that several processes share: what is reported when, and what comes of the answers. */
#include "support/unit.h"

#include "http/checks.h"

typedef struct world {
  idem__limiter *limiter;
  idem__ip who;
  int reports;
  uint32_t reported; /* by the last */
  size_t others;
} world;

static void on_report(void *user, const idem__ip *who, uint32_t taken) {
  world *self = user;
  self->who = *who;
  self->reports++;
  self->reported = taken;
}

static size_t count_others(void *user) { return ((world *)user)->others; }

/* Forty in 600 seconds: blocks of five. */
static void set_up(world *self, size_t others) {
  *self = (world){.others = others};
  self->who.bytes[15] = 1;
  assert_int_equal(idem__limiter_new(NULL, 40, 600, 0, 1, &self->limiter), IDEM_OK);
  idem__limiter_share(self->limiter, on_report, count_others, self);
}

/* How many of so many are let through. */
static int take(world *self, int count, uint64_t now_ms) {
  int passed = 0;
  uint32_t retry;
  for (int i = 0; i < count; i++)
    passed += idem__limiter_take(self->limiter, &self->who, now_ms, &retry);
  return passed;
}

static void what_was_taken_is_reported_in_blocks(void **state) {
  world self;
  (void)state;
  set_up(&self, 1);
  assert_int_equal(take(&self, 4, 1000), 4);
  assert_int_equal(self.reports, 0);
  assert_int_equal(take(&self, 1, 1000), 1);
  assert_int_equal(self.reports, 1);
  assert_int_equal(self.reported, 5);
  /* The next one waits for the answer, and has all that was taken meanwhile. */
  assert_int_equal(take(&self, 7, 1000), 7);
  assert_int_equal(self.reports, 1);
  idem__limiter_heard(self.limiter, &self.who, 0, 5);
  assert_int_equal(take(&self, 1, 1000), 1);
  assert_int_equal(self.reports, 2);
  assert_int_equal(self.reported, 8);
  idem__limiter_free(self.limiter);
}

static void what_others_took_is_gone(void **state) {
  world self;
  (void)state;
  set_up(&self, 1);
  assert_int_equal(take(&self, 5, 1000), 5);
  idem__limiter_heard(self.limiter, &self.who, 900, 5); /* before our time */
  assert_int_equal(take(&self, 5, 1000), 5);
  idem__limiter_heard(self.limiter, &self.who, 905 + 20, 5);
  assert_int_equal(take(&self, 40, 1000), 10);
  /* As much comes back as ever. */
  assert_int_equal(take(&self, 40, 1000 + 15000), 1);
  idem__limiter_free(self.limiter);
}

static void a_count_that_began_anew_counts_whole(void **state) {
  world self;
  (void)state;
  set_up(&self, 0);
  take(&self, 5, 1000);
  idem__limiter_heard(self.limiter, &self.who, 900, 5);
  take(&self, 5, 1000);
  idem__limiter_heard(self.limiter, &self.who, 10, 5);
  assert_int_equal(take(&self, 40, 1000), 20);
  idem__limiter_free(self.limiter);
}

/* However much others say they took, a client is let in again within the limit's time. */
static void nobody_is_locked_out_by_a_count(void **state) {
  world self;
  (void)state;
  set_up(&self, 0);
  take(&self, 5, 1000);
  idem__limiter_heard(self.limiter, &self.who, 0, 5);
  take(&self, 5, 1000);
  idem__limiter_heard(self.limiter, &self.who, UINT64_MAX - 100, 5);
  assert_int_equal(take(&self, 1, 1000), 0);
  assert_int_equal(take(&self, 50, 1000 + 600000), 40);
  idem__limiter_free(self.limiter);
}

static void without_an_answer_there_is_a_share(void **state) {
  world self;
  int passed = 0;
  (void)state;
  set_up(&self, 3); /* four in all: ten for each */
  for (int i = 0; i < 50; i++) {
    int before = self.reports;
    passed += take(&self, 1, 1000);
    if (self.reports > before)
      idem__limiter_unheard(self.limiter, &self.who, self.reported, self.others);
  }
  assert_int_equal(passed, 10);
  idem__limiter_free(self.limiter);
}

static void while_an_answer_is_late_there_is_a_share(void **state) {
  world self;
  (void)state;
  set_up(&self, 3);
  assert_in_range(take(&self, 50, 1000), 10, 20);
  idem__limiter_free(self.limiter);
}

static void an_answer_for_a_client_that_was_forgotten_is_none(void **state) {
  world self;
  idem__ip other = {{9}};
  (void)state;
  set_up(&self, 0);
  idem__limiter_heard(self.limiter, &other, 1000, 5);
  idem__limiter_unheard(self.limiter, &other, 1000, 5);
  assert_int_equal(take(&self, 50, 1000), 40);
  idem__limiter_free(self.limiter);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_taken_is_reported_in_blocks),
      cmocka_unit_test(what_others_took_is_gone),
      cmocka_unit_test(a_count_that_began_anew_counts_whole),
      cmocka_unit_test(nobody_is_locked_out_by_a_count),
      cmocka_unit_test(without_an_answer_there_is_a_share),
      cmocka_unit_test(while_an_answer_is_late_there_is_a_share),
      cmocka_unit_test(an_answer_for_a_client_that_was_forgotten_is_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
