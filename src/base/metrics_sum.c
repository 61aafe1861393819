/* metrics_sum.c - the few numbers that a chart wants, summed over methods and threads.
 * Reads while they count, as metrics_render.c does. */
#include "metrics.h"

_Static_assert(IDEM_METRICS_BUCKETS == IDEM__BUCKETS + 1, "buckets are those of the histogram");

static uint64_t read_cell(const idem__cell *cell) {
  return atomic_load_explicit(cell, memory_order_relaxed);
}

static void add_row(idem_metrics_sums *sums, const idem__row *row) {
  for (size_t i = 0; i < IDEM__OUTCOMES; i++) sums->requests += read_cell(&row->outcomes[i]);
  sums->errors += read_cell(&row->outcomes[IDEM__OUTCOME_ERROR]) +
                  read_cell(&row->outcomes[IDEM__OUTCOME_TIMEOUT]);
  for (size_t i = 0; i <= IDEM__BUCKETS; i++) sums->buckets[i] += read_cell(&row->buckets[i]);
}

/* Tools are counted beside their method: of them only what the method does not know. */
static void add_failed(idem_metrics_sums *sums, const idem__row *row) {
  sums->errors += read_cell(&row->outcomes[IDEM__OUTCOME_FAILED]);
}

static void each_row(const idem__label_set *set, idem_metrics_sums *sums,
                     void (*add)(idem_metrics_sums *sums, const idem__row *row)) {
  size_t count = atomic_load_explicit(&set->count, memory_order_acquire);
  add(sums, &set->other);
  for (size_t i = 0; i < count; i++) {
    const idem__row *row =
        atomic_load_explicit(&idem__label_slot(set, i)->row, memory_order_acquire);
    if (row) add(sums, row);
  }
}

/* What was closed may be read before what was opened after it: then there are none, not fewer. */
static uint64_t open_now(const idem_metrics *metrics, idem__counter opened, idem__counter closed) {
  uint64_t gone = read_cell(&metrics->counters[closed]);
  uint64_t come = read_cell(&metrics->counters[opened]);
  return come > gone ? come - gone : 0;
}

void idem_metrics_add_to(const idem_metrics *metrics, idem_metrics_sums *sums) {
  each_row(&metrics->methods, sums, add_row);
  each_row(&metrics->tools, sums, add_failed);
  sums->connections += open_now(metrics, IDEM__M_CONNECTIONS_OPENED, IDEM__M_CONNECTIONS_CLOSED);
  sums->sessions += open_now(metrics, IDEM__M_SESSIONS_OPENED, IDEM__M_SESSIONS_CLOSED);
}

/* Within a bucket times are taken to lie evenly; past the last one it is its bound. */
uint64_t idem_metrics_percentile_us(const idem_metrics_sums *before, const idem_metrics_sums *now,
                                    unsigned percent) {
  uint64_t total = 0, seen = 0, least = 0;
  for (size_t i = 0; i < IDEM_METRICS_BUCKETS; i++) total += now->buckets[i] - before->buckets[i];
  uint64_t wanted = (total * percent + 99) / 100;
  for (size_t i = 0; total && i < IDEM__BUCKETS; i++) {
    uint64_t here = now->buckets[i] - before->buckets[i], most = idem__bucket_ns[i] / 1000;
    if (here && seen + here >= wanted) return least + (most - least) * (wanted - seen) / here;
    seen += here;
    least = most;
  }
  return total ? idem__bucket_ns[IDEM__BUCKETS - 1] / 1000 : 0;
}
