/* metrics.c - what is counted, and by whom.
 * One idem_metrics per thread, written by that thread alone: a load and a store, no locked
 * instruction. All cells are atomics, so that any thread may render. See docs/internals/base.md. */
#include "metrics.h"

#include <string.h>

enum { LABEL_NAME_MAX = 256 };

/* Only the owner writes a cell, so a plain read-modify-write loses nothing. */
static inline void bump(idem__cell *cell, uint64_t n) {
  uint64_t old = atomic_load_explicit(cell, memory_order_relaxed);
  atomic_store_explicit(cell, old + n, memory_order_relaxed);
}

idem_status idem_metrics_new(const idem_alloc *alloc, idem_metrics **out) {
  *out = NULL;
  idem_metrics *metrics = idem__calloc(alloc, sizeof *metrics);
  if (!metrics) return IDEM_E_NOMEM;
  metrics->alloc = idem__alloc_or_default(alloc);
  /* The names are our own, so the seed need not be secret. */
  idem_map_init(&metrics->methods.by_name, &metrics->alloc, 0);
  idem_map_init(&metrics->tools.by_name, &metrics->alloc, 0);
  atomic_init(&metrics->methods.count, 0);
  atomic_init(&metrics->tools.count, 0);
  *out = metrics;
  return IDEM_OK;
}

static void free_labels(idem__label_set *set, const idem_alloc *alloc) {
  size_t count = atomic_load_explicit(&set->count, memory_order_acquire);
  for (size_t i = 0; i < count; i++) {
    idem__label *label = idem__label_slot(set, i);
    idem__free(alloc, label->name);
    idem__free(alloc, atomic_load_explicit(&label->row, memory_order_relaxed));
  }
  for (size_t i = 0; i < IDEM__LABEL_CHUNKS; i++) idem__free(alloc, set->chunks[i]);
  idem_map_deinit(&set->by_name);
}

void idem_metrics_free(idem_metrics *metrics) {
  if (!metrics) return;
  idem_alloc alloc = metrics->alloc;
  free_labels(&metrics->methods, &alloc);
  free_labels(&metrics->tools, &alloc);
  idem__free(&alloc, metrics);
}

/* -------------------------------------------------------------- labels */

/* Chunk c holds 64 << c labels, so that a label never moves once a reader may have seen it. */
idem__label *idem__label_slot(const idem__label_set *set, size_t index) {
  size_t chunk = 0, size = IDEM__LABEL_FIRST;
  for (; index >= size; chunk++, size *= 2) index -= size;
  return &set->chunks[chunk][index];
}

static idem_status add_chunk_for(idem__label_set *set, const idem_alloc *alloc, size_t index) {
  size_t chunk = 0, size = IDEM__LABEL_FIRST;
  for (; index >= size; chunk++, size *= 2) index -= size;
  if (chunk >= IDEM__LABEL_CHUNKS) return IDEM_E_LIMIT;
  if (set->chunks[chunk]) return IDEM_OK;
  set->chunks[chunk] = idem__calloc(alloc, size * sizeof(idem__label));
  return set->chunks[chunk] ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status add_label(idem__label_set *set, const idem_alloc *alloc, const char *name,
                             size_t len, size_t count) {
  idem_status status = add_chunk_for(set, alloc, count);
  if (status != IDEM_OK) return status;
  idem__label *label = idem__label_slot(set, count);
  label->name = idem__strndup(alloc, name, len);
  if (!label->name) return IDEM_E_NOMEM;
  label->name_len = len;
  label->number = (idem__method_label)count + 1;
  status = idem_map_put(&set->by_name, label->name, len, label);
  if (status != IDEM_OK) {
    idem__free(alloc, label->name);
    label->name = NULL;
    return status;
  }
  atomic_store_explicit(&set->count, count + 1, memory_order_release);
  return IDEM_OK;
}

static idem_status find_label(idem__label_set *set, const idem_alloc *alloc, const char *name,
                              size_t len, idem__method_label *label) {
  if (len == 5 && memcmp(name, "other", 5) == 0) return IDEM_OK;
  if (len > LABEL_NAME_MAX) return IDEM_E_LIMIT;
  if (!idem_utf8_valid(name, len)) return IDEM_E_INVAL;
  const idem__label *known = idem_map_get(&set->by_name, name, len);
  size_t count = atomic_load_explicit(&set->count, memory_order_relaxed);
  if (!known) {
    idem_status status = add_label(set, alloc, name, len, count);
    if (status != IDEM_OK) return status;
  }
  *label = known ? known->number : (idem__method_label)count + 1;
  return IDEM_OK;
}

idem_status idem__metrics_label(idem_metrics *metrics, const char *method, size_t len,
                                idem__method_label *label) {
  *label = 0;
  return metrics ? find_label(&metrics->methods, &metrics->alloc, method, len, label) : IDEM_OK;
}

idem_status idem__metrics_tool_label(idem_metrics *metrics, const char *tool, size_t len,
                                     idem__method_label *label) {
  *label = 0;
  return metrics ? find_label(&metrics->tools, &metrics->alloc, tool, len, label) : IDEM_OK;
}

/* The counts of a name are made when it is first used; without memory for them they go to
 * `other`. */
static idem__row *row_of(idem__label_set *set, const idem_alloc *alloc, idem__method_label number) {
  size_t count = atomic_load_explicit(&set->count, memory_order_relaxed);
  if (number == 0 || number > count) return &set->other;
  idem__label *label = idem__label_slot(set, number - 1);
  idem__row *row = atomic_load_explicit(&label->row, memory_order_relaxed);
  if (row) return row;
  row = idem__calloc(alloc, sizeof *row);
  if (!row) return &set->other;
  atomic_store_explicit(&label->row, row, memory_order_release);
  return row;
}

static inline idem__row *method_row(idem_metrics *metrics, idem__method_label label) {
  return row_of(&metrics->methods, &metrics->alloc, label);
}

/* ------------------------------------------------------------ counting */

const uint64_t idem__bucket_ns[IDEM__BUCKETS] = {
    100000,   250000,    500000,    1000000,   2500000,    5000000,    10000000,   25000000,
    50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000, 10000000000};

const int idem__error_codes[IDEM__ERROR_CODES] = {-32700, -32600, -32601, -32602,
                                                  -32603, -32000, -32002, -32800};

void idem__metrics_add(idem_metrics *metrics, idem__counter counter, uint64_t n) {
  if (metrics) bump(&metrics->counters[counter], n);
}

void idem__metrics_notification(idem_metrics *metrics, idem__method_label label) {
  if (metrics) bump(&method_row(metrics, label)->notifications, 1);
}

void idem__metrics_error(idem_metrics *metrics, int code) {
  if (!metrics || code == 0) return;
  size_t i = 0;
  while (i < IDEM__ERROR_CODES && idem__error_codes[i] != code) i++;
  bump(&metrics->errors[i], 1);
}

static void count_duration(idem__row *row, uint64_t duration_ns) {
  size_t bucket = 0;
  while (bucket < IDEM__BUCKETS && duration_ns > idem__bucket_ns[bucket]) bucket++;
  bump(&row->buckets[bucket], 1);
  bump(&row->duration_ns, duration_ns);
}

void idem__metrics_request(idem_metrics *metrics, idem__method_label label, idem__outcome outcome,
                           int code, uint64_t duration_ns) {
  if (!metrics) return;
  idem__row *row = method_row(metrics, label);
  bump(&row->outcomes[outcome], 1);
  count_duration(row, duration_ns);
  idem__metrics_error(metrics, code);
}

void idem__metrics_cancelled(idem_metrics *metrics, idem__method_label label) {
  if (metrics) bump(&method_row(metrics, label)->outcomes[IDEM__OUTCOME_CANCELLED], 1);
}

void idem__metrics_tool(idem_metrics *metrics, idem__method_label label, idem__outcome outcome,
                        uint64_t duration_ns) {
  if (!metrics) return;
  idem__row *row = row_of(&metrics->tools, &metrics->alloc, label);
  bump(&row->outcomes[outcome], 1);
  if (duration_ns != UINT64_MAX) count_duration(row, duration_ns);
}

uint64_t idem__metrics_total(idem_metrics *const *metrics, size_t count, idem__counter counter) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++)
    total += atomic_load_explicit(&metrics[i]->counters[counter], memory_order_relaxed);
  return total;
}
