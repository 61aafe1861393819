/* web_metrics.c - the counters of every listener and worker of the process, for /metrics.
 * A listener on any thread may render them all while others come and go. See docs/internals/uv.md. */
#include "uv/runtime.h"

#include <pthread.h>

#define METRICS_MAX 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static idem_metrics *all[METRICS_MAX];
static size_t uses[METRICS_MAX]; /* several listeners may share one */
static size_t count;

static size_t find(const idem_metrics *metrics) {
  size_t at = 0;
  while (at < count && all[at] != metrics) at++;
  return at;
}

idem_status idem__web_metrics_add(idem_metrics *metrics) {
  idem_status status = IDEM_OK;
  pthread_mutex_lock(&lock);
  size_t at = find(metrics);
  if (at < count) {
    uses[at]++;
  } else if (count < METRICS_MAX) {
    all[count] = metrics;
    uses[count++] = 1;
  } else {
    status = IDEM_E_LIMIT;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void idem__web_metrics_remove(idem_metrics *metrics) {
  pthread_mutex_lock(&lock);
  size_t at = find(metrics);
  if (at < count && --uses[at] == 0) {
    count--;
    all[at] = all[count];
    uses[at] = uses[count];
  }
  pthread_mutex_unlock(&lock);
}

/* Keeps the lock when it succeeds: the text belongs to one of them. */
idem_status idem__web_metrics_render(char **text, size_t *len, idem_metrics **owner) {
  pthread_mutex_lock(&lock);
  idem_status status = count ? idem_metrics_render(all, count, text, len) : IDEM_E_NOTFOUND;
  *owner = all[0];
  if (status != IDEM_OK) pthread_mutex_unlock(&lock);
  return status;
}

void idem_process_metrics(idem_metrics_sums *sums) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count; i++) idem_metrics_add_to(all[i], sums);
  pthread_mutex_unlock(&lock);
}

void idem__web_metrics_done(void) { pthread_mutex_unlock(&lock); }
