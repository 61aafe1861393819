/* test_metrics_sum.c - the numbers of a chart: sums over methods and threads, and percentiles of what lies between. */
#include "base/base.h"
#include "support/unit.h"

static idem_metrics *open_metrics(void) {
  idem_metrics *metrics = NULL;
  assert_int_equal(idem_metrics_new(NULL, &metrics), IDEM_OK);
  return metrics;
}

static void sums_are_over_methods_and_threads(void **state) {
  (void)state;
  idem_metrics *one = open_metrics(), *other = open_metrics();
  idem__method_label label = 0;
  assert_int_equal(idem__metrics_label(one, "a", 1, &label), IDEM_OK);
  idem__metrics_request(one, label, IDEM__OUTCOME_OK, 0, 200000);
  idem__metrics_request(one, 0, IDEM__OUTCOME_ERROR, -32601, 200000);
  idem__metrics_request(other, 0, IDEM__OUTCOME_OK, 0, 200000);
  idem__metrics_request(other, 0, IDEM__OUTCOME_TIMEOUT, -32603, 200000);
  idem__metrics_add(one, IDEM__M_CONNECTIONS_OPENED, 3);
  idem__metrics_add(one, IDEM__M_CONNECTIONS_CLOSED, 1);
  idem__metrics_add(other, IDEM__M_SESSIONS_OPENED, 2);
  idem_metrics_sums sums = {0};
  idem_metrics_add_to(one, &sums);
  idem_metrics_add_to(other, &sums);
  assert_int_equal(sums.requests, 4);
  assert_int_equal(sums.errors, 2);
  assert_int_equal(sums.connections, 2);
  assert_int_equal(sums.sessions, 2);
  assert_int_equal(sums.buckets[1], 4);
  idem_metrics_free(one);
  idem_metrics_free(other);
}

static void a_percentile_is_of_what_happened_in_between(void **state) {
  (void)state;
  idem_metrics_sums before = {.buckets = {[0] = 100}},
                    now = {.buckets = {[0] = 100, [3] = 50, [16] = 50}};
  assert_int_equal(idem_metrics_percentile_us(&before, &before, 50), 0);
  assert_int_equal(idem_metrics_percentile_us(&before, &now, 50), 1000);
  assert_int_equal(idem_metrics_percentile_us(&before, &now, 25), 750);
  assert_int_equal(idem_metrics_percentile_us(&before, &now, 99), 10000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_over_methods_and_threads),
      cmocka_unit_test(a_percentile_is_of_what_happened_in_between),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
