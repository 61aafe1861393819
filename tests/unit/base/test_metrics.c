/* test_metrics.c - counts add up over threads, labels come from registration alone, and the text is
 * what Prometheus reads. */
#include "base/base.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>

static char rendered[1 << 20];

static const char *render(idem_metrics *const *metrics, size_t count) {
  char *text = NULL;
  size_t len = 0;
  assert_int_equal(idem_metrics_render(metrics, count, &text, &len), IDEM_OK);
  assert_true(len < sizeof rendered);
  assert_int_equal(text[len], '\0');
  memcpy(rendered, text, len + 1);
  idem_metrics_text_free(metrics[0], text);
  return rendered;
}

static void expect_line(const char *text, const char *line) {
  size_t len = strlen(line);
  for (const char *at = text; (at = strstr(at, line)); at++)
    if ((at == text || at[-1] == '\n') && at[len] == '\n') return;
  fail_msg("no line %s in:\n%s", line, text);
}

static idem__method_label label_of(idem_metrics *metrics, const char *name) {
  idem__method_label label = 99;
  assert_int_equal(idem__metrics_label(metrics, name, strlen(name), &label), IDEM_OK);
  return label;
}

static idem_metrics *open_metrics(void) {
  idem_metrics *metrics = NULL;
  assert_int_equal(idem_metrics_new(NULL, &metrics), IDEM_OK);
  return metrics;
}

static int set_up(void **state) {
  *state = open_metrics();
  return 0;
}

static int tear_down(void **state) {
  idem_metrics_free(*state);
  return 0;
}

#define WITH_METRICS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static void fresh_metrics_show_every_family_and_no_method(void **state) {
  idem_metrics *metrics = *state;
  label_of(metrics, "never/used");
  const char *text = render(&metrics, 1);
  expect_line(text, "# TYPE mcp_notifications_total counter");
  expect_line(text, "# TYPE mcp_requests_total counter");
  expect_line(text, "# TYPE mcp_request_duration_seconds histogram");
  expect_line(text, "# TYPE idem_errors_total counter");
  expect_line(text, "# TYPE idem_requests_in_flight gauge");
  expect_line(text, "# HELP idem_sessions Sessions alive now.");
  expect_line(text, "idem_received_bytes_total 0");
  expect_line(text, "idem_errors_total{code=\"-32700\"} 0");
  assert_null(strstr(text, "method="));
}

/* Every sample follows the TYPE line of its family, each family is announced once, and each line is a
 * comment or a name, perhaps labels, a blank and a number. */
static void the_text_keeps_the_rules_of_the_format(void **state) {
  idem_metrics *metrics = *state;
  idem__metrics_request(metrics, label_of(metrics, "a \"b\"\\c"), IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_notification(metrics, 0);
  render(&metrics, 1);
  char family[128] = "";
  size_t samples = 0, length = strlen(rendered);
  assert_int_equal(rendered[length - 1], '\n');
  for (char *line = strtok(rendered, "\n"); line; line = strtok(NULL, "\n")) {
    char name[128];
    if (sscanf(line, "# TYPE %127s", name) == 1) {
      snprintf(family, sizeof family, "%s", name);
    } else if (line[0] != '#') {
      assert_int_equal(strncmp(line, family, strlen(family)), 0);
      assert_non_null(strrchr(line, ' '));
      assert_int_equal(strspn(strrchr(line, ' ') + 1, "0123456789."),
                       strlen(strrchr(line, ' ') + 1));
      samples++;
    }
  }
  assert_true(samples > 30);
}

static void requests_count_by_method_and_outcome(void **state) {
  idem_metrics *metrics = *state;
  idem__method_label list = label_of(metrics, "tools/list"), call = label_of(metrics, "tools/call");
  assert_int_equal(list, 1);
  assert_int_equal(call, 2);
  for (int i = 0; i < 3; i++) idem__metrics_request(metrics, list, IDEM__OUTCOME_OK, 0, 1000);
  idem__metrics_request(metrics, call, IDEM__OUTCOME_ERROR, -32602, 1000);
  idem__metrics_notification(metrics, call);
  const char *text = render(&metrics, 1);
  expect_line(text, "mcp_requests_total{method=\"tools/list\",status=\"ok\"} 3");
  expect_line(text, "mcp_requests_total{method=\"tools/call\",status=\"error\"} 1");
  expect_line(text, "mcp_notifications_total{method=\"tools/call\"} 1");
  expect_line(text, "idem_errors_total{code=\"-32602\"} 1");
  assert_true(strstr(text, "requests_total{method=\"tools/call\"") <
              strstr(text, "requests_total{method=\"tools/list\""));
}

static void durations_fill_cumulative_buckets(void **state) {
  idem_metrics *metrics = *state;
  idem__method_label label = label_of(metrics, "m");
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 100000);
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 100001);
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 10000000000);
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 10000000001);
  const char *text = render(&metrics, 1);
  const char *prefix = "mcp_request_duration_seconds";
  static const char *const lines[] = {"_bucket{method=\"m\",le=\"0.0001\"} 1",
                                      "_bucket{method=\"m\",le=\"0.00025\"} 2",
                                      "_bucket{method=\"m\",le=\"5\"} 2",
                                      "_bucket{method=\"m\",le=\"10\"} 3",
                                      "_bucket{method=\"m\",le=\"+Inf\"} 4",
                                      "_sum{method=\"m\"} 20.000200002",
                                      "_count{method=\"m\"} 4"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[128];
    snprintf(line, sizeof line, "%s%s", prefix, lines[i]);
    expect_line(text, line);
  }
}

static void unregistered_methods_are_other(void **state) {
  idem_metrics *metrics = *state;
  idem__metrics_request(metrics, 0, IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_request(metrics, 4711, IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_notification(metrics, UINT32_MAX);
  const char *text = render(&metrics, 1);
  expect_line(text, "mcp_requests_total{method=\"other\",status=\"ok\"} 2");
  expect_line(text, "mcp_notifications_total{method=\"other\"} 1");
}

static void a_method_called_other_makes_no_second_series(void **state) {
  idem_metrics *metrics = *state;
  assert_int_equal(label_of(metrics, "other"), 0);
  assert_int_equal(label_of(metrics, "Other"), 1);
}

static void a_name_registered_twice_keeps_its_label(void **state) {
  idem_metrics *metrics = *state;
  assert_int_equal(label_of(metrics, "a"), 1);
  assert_int_equal(label_of(metrics, "b"), 2);
  assert_int_equal(label_of(metrics, "a"), 1);
}

static void names_that_cannot_be_labels_are_refused_and_count_as_other(void **state) {
  idem_metrics *metrics = *state;
  char long_name[300];
  memset(long_name, 'a', sizeof long_name);
  idem__method_label label = 99;
  assert_int_equal(idem__metrics_label(metrics, long_name, 257, &label), IDEM_E_LIMIT);
  assert_int_equal(label, 0);
  assert_int_equal(idem__metrics_label(metrics, long_name, 256, &label), IDEM_OK);
  assert_int_equal(idem__metrics_label(metrics, "\xff", 1, &label), IDEM_E_INVAL);
  assert_int_equal(label, 0);
}

static void label_values_are_escaped(void **state) {
  idem_metrics *metrics = *state;
  idem__metrics_notification(metrics, label_of(metrics, "a\"} 1\nb\\ \xc3\xa9"));
  expect_line(render(&metrics, 1),
              "mcp_notifications_total{method=\"a\\\"} 1\\nb\\\\ \xc3\xa9\"} 1");
}

static void error_codes_are_a_closed_set(void **state) {
  idem_metrics *metrics = *state;
  for (int code = -32800; code < -31000; code++) idem__metrics_error(metrics, code);
  idem__metrics_error(metrics, 0);
  const char *text = render(&metrics, 1);
  size_t lines = 0;
  for (const char *at = text; (at = strstr(at, "idem_errors_total{")); at++) lines++;
  assert_int_equal(lines, 9);
  expect_line(text, "idem_errors_total{code=\"-32601\"} 1");
  expect_line(text, "idem_errors_total{code=\"other\"} 1792");
}

static void counters_add_up_over_all_metrics(void **state) {
  (void)state;
  idem_metrics *all[3];
  for (size_t i = 0; i < 3; i++) {
    all[i] = open_metrics();
    idem__metrics_add(all[i], IDEM__M_BYTES_IN, 10);
    idem__metrics_add(all[i], IDEM__M_BYTES_OUT, 20);
    idem__metrics_add(all[i], IDEM__M_RATE_LIMITED, 1);
    idem__metrics_add(all[i], IDEM__M_AUTH_FAILURES, 2);
    idem__metrics_add(all[i], IDEM__M_REFUSED_CONNECTIONS, 3);
    idem__metrics_request(all[i], label_of(all[i], "m"), IDEM__OUTCOME_OK, 0, 500000000);
  }
  assert_int_equal(idem__metrics_total(all, 3, IDEM__M_BYTES_OUT), 60);
  const char *text = render(all, 3);
  expect_line(text, "idem_received_bytes_total 30");
  expect_line(text, "idem_sent_bytes_total 60");
  expect_line(text, "idem_rate_limited_total 3");
  expect_line(text, "idem_auth_failures_total 6");
  expect_line(text, "idem_connections_refused_total 9");
  expect_line(text, "mcp_requests_total{method=\"m\",status=\"ok\"} 3");
  expect_line(text, "mcp_request_duration_seconds_sum{method=\"m\"} 1.500000000");
  for (size_t i = 0; i < 3; i++) idem_metrics_free(all[i]);
}

static void methods_merge_by_name_whatever_the_order_of_registration(void **state) {
  (void)state;
  idem_metrics *all[2] = {open_metrics(), open_metrics()};
  idem__metrics_notification(all[0], label_of(all[0], "a"));
  idem__metrics_notification(all[0], label_of(all[0], "ab"));
  idem__metrics_notification(all[1], label_of(all[1], "ab"));
  idem__metrics_notification(all[1], label_of(all[1], ""));
  idem__metrics_notification(all[1], 0);
  const char *text = render(all, 2);
  assert_non_null(strstr(text, "mcp_notifications_total{method=\"\"} 1\n"
                               "mcp_notifications_total{method=\"a\"} 1\n"
                               "mcp_notifications_total{method=\"ab\"} 2\n"
                               "mcp_notifications_total{method=\"other\"} 1\n"));
  for (size_t i = 0; i < 2; i++) idem_metrics_free(all[i]);
}

static void gauges_are_what_is_open_and_never_negative(void **state) {
  idem_metrics *metrics = *state;
  idem__metrics_add(metrics, IDEM__M_CONNECTIONS_OPENED, 5);
  idem__metrics_add(metrics, IDEM__M_CONNECTIONS_CLOSED, 2);
  idem__metrics_add(metrics, IDEM__M_REQUESTS_STARTED, 7);
  idem__metrics_add(metrics, IDEM__M_REQUESTS_ENDED, 6);
  idem__metrics_add(metrics, IDEM__M_SESSIONS_CLOSED, 1);
  const char *text = render(&metrics, 1);
  expect_line(text, "idem_connections_total 5");
  expect_line(text, "idem_connections 3");
  expect_line(text, "idem_requests_in_flight 1");
  expect_line(text, "idem_sessions 0");
}

static void null_metrics_count_nothing(void **state) {
  (void)state;
  idem__method_label label = 9;
  idem__metrics_add(NULL, IDEM__M_BYTES_IN, 1);
  idem__metrics_notification(NULL, 1);
  idem__metrics_request(NULL, 1, IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_error(NULL, -32700);
  assert_int_equal(idem__metrics_label(NULL, "a", 1, &label), IDEM_OK);
  assert_int_equal(label, 0);
  idem_metrics_free(NULL);
}

static void rendering_nothing_is_refused(void **state) {
  (void)state;
  char *text = (char *)"x";
  size_t len = 1;
  assert_int_equal(idem_metrics_render(NULL, 0, &text, &len), IDEM_E_INVAL);
  assert_null(text);
  assert_int_equal(len, 0);
}

static void ten_thousand_unused_methods_cost_no_histograms(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_metrics *metrics = NULL;
  assert_int_equal(idem_metrics_new(&fault.alloc, &metrics), IDEM_OK);
  for (int i = 0; i < 10000; i++) {
    char name[32];
    snprintf(name, sizeof name, "method/%d", i);
    assert_int_equal(label_of(metrics, name), i + 1);
  }
  assert_true(fault.live_bytes < 1400 * 1024);
  size_t before = fault.live_bytes;
  idem__metrics_request(metrics, 7000, IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_request(metrics, 7000, IDEM__OUTCOME_OK, 0, 1);
  assert_true(fault.live_bytes - before < 256);
  expect_line(render(&metrics, 1), "mcp_requests_total{method=\"method/6999\",status=\"ok\"} 2");
  idem_metrics_free(metrics);
  fault_alloc_assert_clean(&fault);
}

static void labels_are_bounded(void **state) {
  idem_metrics *metrics = *state;
  idem__method_label label;
  for (int i = 0; i < 131008; i++) {
    char name[16];
    int len = snprintf(name, sizeof name, "%d", i);
    if (idem__metrics_label(metrics, name, (size_t)len, &label) != IDEM_OK) fail();
  }
  assert_int_equal(idem__metrics_label(metrics, "one more", 8, &label), IDEM_E_LIMIT);
  assert_int_equal(label, 0);
  assert_int_equal(label_of(metrics, "131007"), 131008);
}

static void without_memory_for_a_row_the_count_goes_to_other(void **state) {
  (void)state;
  fault_alloc fault;
  fault_alloc_init(&fault);
  idem_metrics *metrics = NULL;
  assert_int_equal(idem_metrics_new(&fault.alloc, &metrics), IDEM_OK);
  idem__method_label label = label_of(metrics, "m");
  fault_alloc_fail_in(&fault, 1);
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 1);
  idem__metrics_request(metrics, label, IDEM__OUTCOME_OK, 0, 1);
  const char *text = render(&metrics, 1);
  expect_line(text, "mcp_requests_total{method=\"other\",status=\"ok\"} 1");
  expect_line(text, "mcp_requests_total{method=\"m\",status=\"ok\"} 1");
  idem_metrics_free(metrics);
  fault_alloc_assert_clean(&fault);
}

static void count_and_render(fault_alloc *fault, void *user) {
  (void)user;
  idem_metrics *metrics = NULL;
  if (idem_metrics_new(&fault->alloc, &metrics) != IDEM_OK) {
    assert_null(metrics);
    return;
  }
  for (int i = 0; i < 70; i++) {
    idem__method_label label = 0;
    char name[16];
    int len = snprintf(name, sizeof name, "%d", i);
    (void)idem__metrics_label(metrics, name, (size_t)len, &label);
    idem__metrics_request(metrics, label, i % 2 == 0, i % 2 ? -32603 : 0, 1);
    idem__metrics_notification(metrics, label);
  }
  char *text = NULL;
  size_t len = 0;
  if (idem_metrics_render(&metrics, 1, &text, &len) != IDEM_OK) assert_null(text);
  idem_metrics_text_free(metrics, text);
  idem_metrics_free(metrics);
}

static void no_want_of_memory_leaks(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(count_and_render, NULL, 1000) > 140);
  assert_true(fault_alloc_sweep_ever_after(count_and_render, NULL, 1000) > 140);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_METRICS(fresh_metrics_show_every_family_and_no_method),
      WITH_METRICS(the_text_keeps_the_rules_of_the_format),
      WITH_METRICS(requests_count_by_method_and_outcome),
      WITH_METRICS(durations_fill_cumulative_buckets),
      WITH_METRICS(unregistered_methods_are_other),
      WITH_METRICS(a_method_called_other_makes_no_second_series),
      WITH_METRICS(a_name_registered_twice_keeps_its_label),
      WITH_METRICS(names_that_cannot_be_labels_are_refused_and_count_as_other),
      WITH_METRICS(label_values_are_escaped),
      WITH_METRICS(error_codes_are_a_closed_set),
      cmocka_unit_test(counters_add_up_over_all_metrics),
      cmocka_unit_test(methods_merge_by_name_whatever_the_order_of_registration),
      WITH_METRICS(gauges_are_what_is_open_and_never_negative),
      cmocka_unit_test(null_metrics_count_nothing),
      cmocka_unit_test(rendering_nothing_is_refused),
      cmocka_unit_test(ten_thousand_unused_methods_cost_no_histograms),
      WITH_METRICS(labels_are_bounded),
      cmocka_unit_test(without_memory_for_a_row_the_count_goes_to_other),
      cmocka_unit_test(no_want_of_memory_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
