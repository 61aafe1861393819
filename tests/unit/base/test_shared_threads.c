/* test_shared_threads.c - what several threads may do with one log and one set of metrics at once.
 * The name says "threads", so it runs under the thread sanitizer as well. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

enum { THREADS = 4, LINES = 200, COUNTS = 2000 };

/* What the sink saw. Not locked: the log promises to call it by one thread at a time. */
typedef struct sink {
  size_t lines;
  size_t damaged;
} sink;

static void count_line(void *ctx, const char *line, size_t len) {
  sink *seen = ctx;
  seen->lines++;
  const char *newline = memchr(line, '\n', len);
  if (!newline || newline != line + len - 1 || !memmem(line, len, "as one", 6)) seen->damaged++;
}

static void *write_lines(void *arg) {
  idem_log *log = arg;
  for (int i = 0; i < LINES; i++) {
    idem_logf(log, IDEM_LOG_INFO, "a line arrives", "as one piece, number %d", i);
    if (i % 50 == 0) idem_log_set_level(log, IDEM_LOG_DEBUG);
  }
  return NULL;
}

static void lines_of_several_threads_never_mix(void **state) {
  (void)state;
  sink seen = {0};
  idem_log_opts opts = {.level = IDEM_LOG_DEBUG, .write = count_line, .write_ctx = &seen};
  idem_log *log = NULL;
  pthread_t threads[THREADS];
  assert_int_equal(idem_log_new(&opts, &log), IDEM_OK);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_lines, log), 0);
  assert_int_equal(idem_log_add_secret(log, "a secret added meanwhile", 24), IDEM_OK);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  idem_log_free(log);
  assert_int_equal(seen.lines, THREADS * LINES);
  assert_int_equal(seen.damaged, 0);
}

static void *count_requests(void *arg) {
  idem_metrics *metrics = arg;
  for (int i = 0; i < COUNTS; i++) {
    idem__metrics_add(metrics, IDEM__M_BYTES_IN, 3);
    idem__metrics_request(metrics, 1, i % 2 == 0 ? IDEM__OUTCOME_OK : IDEM__OUTCOME_ERROR,
                          i % 2 == 0 ? 0 : -32603, 1000);
  }
  return NULL;
}

static void render(idem_metrics *const *all, char *out, size_t size) {
  char *text = NULL;
  size_t len = 0;
  assert_int_equal(idem_metrics_render(all, THREADS, &text, &len), IDEM_OK);
  snprintf(out, size, "%.*s", (int)len, text);
  idem_metrics_text_free(all[0], text);
}

/* The value of the first sample whose line begins with `name`; -1 when there is none. */
static double sample(const char *text, const char *name) {
  const char *at = strstr(text, name);
  while (at && at != text && at[-1] != '\n') at = strstr(at + 1, name);
  return at ? strtod(at + strlen(name), NULL) : -1;
}

static void metrics_may_be_rendered_while_their_owners_count(void **state) {
  (void)state;
  static char text[65536];
  idem_metrics *all[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    idem__method_label label = 0;
    assert_int_equal(idem_metrics_new(NULL, &all[i]), IDEM_OK);
    assert_int_equal(idem__metrics_label(all[i], "subtract", 8, &label), IDEM_OK);
    assert_int_equal(label, 1);
    assert_int_equal(pthread_create(&threads[i], NULL, count_requests, all[i]), 0);
  }
  for (int i = 0; i < 20; i++) render(all, text, sizeof text);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  render(all, text, sizeof text);
  double answered = sample(text, "mcp_requests_total{method=\"subtract\",status=\"ok\"}");
  assert_int_equal((int)answered, THREADS * COUNTS / 2);
  for (int i = 0; i < THREADS; i++) idem_metrics_free(all[i]);
}

static void *register_and_count(void *arg) {
  idem_metrics *metrics = arg;
  for (int i = 0; i < COUNTS; i++) {
    char name[16];
    idem__method_label label = 0;
    int len = snprintf(name, sizeof name, "m%d", i % 300);
    if (idem__metrics_label(metrics, name, (size_t)len, &label) != IDEM_OK) return metrics;
    idem__metrics_notification(metrics, label);
  }
  return NULL;
}

static void labels_may_be_registered_while_another_thread_renders(void **state) {
  (void)state;
  static char text[65536];
  idem_metrics *all[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(idem_metrics_new(NULL, &all[i]), IDEM_OK);
    assert_int_equal(pthread_create(&threads[i], NULL, register_and_count, all[i]), 0);
  }
  for (int i = 0; i < 20; i++) render(all, text, sizeof text);
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  render(all, text, sizeof text);
  assert_true(sample(text, "mcp_notifications_total{method=\"m0\"}") == THREADS * 7);
  for (int i = 0; i < THREADS; i++) idem_metrics_free(all[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_of_several_threads_never_mix),
      cmocka_unit_test(metrics_may_be_rendered_while_their_owners_count),
      cmocka_unit_test(labels_may_be_registered_while_another_thread_renders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
