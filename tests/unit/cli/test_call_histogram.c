/* test_call_histogram.c - percentiles are right to a hundredth, whatever the size of the times. */
#include "support/unit.h"

#include "call/histogram.h"

#include <stdlib.h>

static void near_to(uint64_t got, uint64_t wanted) {
  uint64_t off = got > wanted ? got - wanted : wanted - got;
  assert_true(off * 100 <= wanted);
}

static void percentiles_are_right_to_a_hundredth(void **state) {
  (void)state;
  histogram *all = malloc(sizeof *all);
  for (uint64_t unit = 1; unit < UINT64_C(1000000000000); unit *= 1000) {
    histogram_reset(all);
    for (uint64_t i = 1; i <= 10000; i++) histogram_add(all, i * unit);
    near_to(histogram_at(all, 0.5), 5000 * unit);
    near_to(histogram_at(all, 0.99), 9900 * unit);
    near_to(histogram_at(all, 0.999), 9990 * unit);
    assert_true(histogram_at(all, 1) == 10000 * unit);
    assert_true(all->least == unit && all->most == 10000 * unit);
  }
  free(all);
}

static void none_and_the_extremes_are_counted(void **state) {
  (void)state;
  histogram *all = malloc(sizeof *all);
  histogram_reset(all);
  assert_true(histogram_at(all, 0.5) == 0);
  histogram_add(all, 0);
  histogram_add(all, UINT64_MAX);
  assert_true(histogram_at(all, 0.1) == 0);
  assert_true(histogram_at(all, 1) == UINT64_MAX);
  free(all);
}

static void times_are_written_for_people(void **state) {
  (void)state;
  char words[32];
  assert_string_equal(histogram_time(412, words, sizeof words), "412 ns");
  assert_string_equal(histogram_time(1250000, words, sizeof words), "1.25 ms");
  assert_string_equal(histogram_time(31000000000u, words, sizeof words), "31.0 s");
}

static void bars_add_up_to_all(void **state) {
  (void)state;
  char *drawn = NULL;
  size_t len = 0;
  unsigned long long sum = 0;
  histogram *all = malloc(sizeof *all);
  FILE *out = open_memstream(&drawn, &len);
  histogram_reset(all);
  for (uint64_t i = 0; i < 5000; i++) histogram_add(all, 1000 + i * i);
  histogram_draw(all, out);
  fclose(out);
  for (char *at = drawn; (at = strchr(at, '\n')); at++) {
    char *number = at;
    while (number > drawn && number[-1] != ' ') number--;
    sum += strtoull(number, NULL, 10);
  }
  assert_true(sum == 5000);
  free(drawn);
  free(all);
}

static void nothing_is_drawn_over_the_longest(void **state) {
  (void)state;
  char *drawn = NULL;
  size_t len = 0;
  histogram *all = malloc(sizeof *all);
  FILE *out = open_memstream(&drawn, &len);
  histogram_reset(all);
  for (uint64_t i = 1; i <= 20; i++) histogram_add(all, i * 1234567);
  histogram_draw(all, out);
  fclose(out);
  assert_null(strstr(drawn, "over"));
  free(drawn);
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(percentiles_are_right_to_a_hundredth),
      cmocka_unit_test(none_and_the_extremes_are_counted),
      cmocka_unit_test(times_are_written_for_people),
      cmocka_unit_test(bars_add_up_to_all),
      cmocka_unit_test(nothing_is_drawn_over_the_longest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
