/* metrics_render.c - the sum over several threads' metrics as Prometheus text.
 * Reads while they count; a line may be a moment older than the next, but no line contradicts
 * itself. Order and content depend on the counts alone. See docs/internals/base.md. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 256 * 1024 * 1024, NANOS = 1000000000 };

static const char *const bucket_names[IDEM__BUCKETS] = {
    "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
    "0.05",   "0.1",     "0.25",   "0.5",   "1",      "2.5",   "5",    "10"};

/* One row for each metric without labels. A gauge is what was opened less what was closed. */
typedef struct family {
  const char *name;
  const char *type;
  const char *help;
  idem__counter counter;
  idem__counter minus; /* IDEM__M_COUNTERS: nothing */
} family;

static const family families[] = {
    {"idem_received_bytes_total", "counter", "Bytes received from peers.", IDEM__M_BYTES_IN,
     IDEM__M_COUNTERS},
    {"idem_sent_bytes_total", "counter", "Bytes sent to peers.", IDEM__M_BYTES_OUT,
     IDEM__M_COUNTERS},
    {"idem_connections_total", "counter", "Connections accepted or made.",
     IDEM__M_CONNECTIONS_OPENED, IDEM__M_COUNTERS},
    {"idem_connections", "gauge", "Connections open now.", IDEM__M_CONNECTIONS_OPENED,
     IDEM__M_CONNECTIONS_CLOSED},
    {"idem_connections_refused_total", "counter", "Connections refused before serving.",
     IDEM__M_REFUSED_CONNECTIONS, IDEM__M_COUNTERS},
    {"idem_unfinished_refused_total", "counter",
     "Halves of messages that were refused since too much was unfinished.",
     IDEM__M_UNFINISHED_REFUSED, IDEM__M_COUNTERS},
    {"idem_requests_in_flight", "gauge", "Requests begun and not yet answered.",
     IDEM__M_REQUESTS_STARTED, IDEM__M_REQUESTS_ENDED},
    {"idem_sessions_total", "counter", "Sessions begun.", IDEM__M_SESSIONS_OPENED,
     IDEM__M_COUNTERS},
    {"idem_sessions", "gauge", "Sessions alive now.", IDEM__M_SESSIONS_OPENED,
     IDEM__M_SESSIONS_CLOSED},
    {"idem_store_unavailable", "gauge", "Servers whose store does not answer now.",
     IDEM__M_STORE_SILENT, IDEM__M_STORE_HEARD},
    {"idem_store_full", "gauge", "Servers whose store has no room left.", IDEM__M_STORE_FULL,
     IDEM__M_STORE_ROOM},
    {"idem_store_emptied_total", "counter", "Times that a store had lost what it held.",
     IDEM__M_STORE_EMPTIED, IDEM__M_COUNTERS},
    {"idem_rate_limited_total", "counter", "Messages refused by a rate limit.",
     IDEM__M_RATE_LIMITED, IDEM__M_COUNTERS},
    {"idem_auth_failures_total", "counter", "Requests refused for want of valid credentials.",
     IDEM__M_AUTH_FAILURES, IDEM__M_COUNTERS},
    {"idem_store_connected", "gauge", "Stores on other machines that are connected now.",
     IDEM__M_STORE_CONNECTED, IDEM__M_STORE_LOST},
    {"idem_store_losses_total", "counter", "Times that such a store was lost.", IDEM__M_STORE_LOST,
     IDEM__M_COUNTERS},
    {"idem_store_unknown_total", "counter",
     "Operations that were sent to it and of which nobody knows whether they happened.",
     IDEM__M_STORE_UNKNOWN, IDEM__M_COUNTERS},
    {"idem_store_refused_total", "counter",
     "Operations that were not sent: it was away, or too many waited.", IDEM__M_STORE_REFUSED,
     IDEM__M_COUNTERS},
};

/* The sum of the rows of one name. */
typedef struct total {
  const char *name;
  size_t name_len;
  uint64_t notifications, duration_ns;
  uint64_t outcomes[IDEM__OUTCOMES];
  uint64_t buckets[IDEM__BUCKETS + 1];
} total;

typedef struct totals {
  const char *label; /* what the names are: "method", "tool" */
  total *items;
  size_t count;
} totals;

typedef const idem__label_set *(*set_fn)(const idem_metrics *metrics);
static const idem__label_set *methods_of(const idem_metrics *metrics) { return &metrics->methods; }
static const idem__label_set *tools_of(const idem_metrics *metrics) { return &metrics->tools; }

/* ------------------------------------------------------------- summing */

static uint64_t read_cell(const idem__cell *cell) {
  return atomic_load_explicit(cell, memory_order_relaxed);
}

static void add_row(total *sum, const idem__row *row) {
  sum->notifications += read_cell(&row->notifications);
  sum->duration_ns += read_cell(&row->duration_ns);
  for (size_t i = 0; i < IDEM__OUTCOMES; i++) sum->outcomes[i] += read_cell(&row->outcomes[i]);
  for (size_t i = 0; i <= IDEM__BUCKETS; i++) sum->buckets[i] += read_cell(&row->buckets[i]);
}

static void add_total(total *sum, const total *more) {
  sum->notifications += more->notifications;
  sum->duration_ns += more->duration_ns;
  for (size_t i = 0; i < IDEM__OUTCOMES; i++) sum->outcomes[i] += more->outcomes[i];
  for (size_t i = 0; i <= IDEM__BUCKETS; i++) sum->buckets[i] += more->buckets[i];
}

/* By name; `other` (no name) comes last. */
static int compare(const void *left, const void *right) {
  const total *a = left, *b = right;
  if (!a->name || !b->name) return (a->name == NULL) - (b->name == NULL);
  size_t shorter = a->name_len < b->name_len ? a->name_len : b->name_len;
  int order = shorter ? memcmp(a->name, b->name, shorter) : 0;
  return order ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static size_t label_count(const idem__label_set *set) {
  return atomic_load_explicit(&set->count, memory_order_acquire);
}

static size_t most_rows(idem_metrics *const *metrics, size_t count, set_fn set_of) {
  size_t most = 0;
  for (size_t i = 0; i < count; i++) {
    const idem__label_set *set = set_of(metrics[i]);
    most++;
    for (size_t k = 0, labels = label_count(set); k < labels; k++)
      if (atomic_load_explicit(&idem__label_slot(set, k)->row, memory_order_acquire)) most++;
  }
  return most;
}

/* Rows made between counting and collecting are left for the next time. */
static void collect_one(totals *all, size_t room, const idem__label_set *set) {
  add_row(&all->items[all->count++], &set->other);
  for (size_t k = 0, labels = label_count(set); k < labels && all->count < room; k++) {
    const idem__label *label = idem__label_slot(set, k);
    const idem__row *row = atomic_load_explicit(&label->row, memory_order_acquire);
    if (!row) continue;
    total *sum = &all->items[all->count++];
    sum->name = label->name;
    sum->name_len = label->name_len;
    add_row(sum, row);
  }
}

static void merge_equal(totals *all) {
  size_t kept = 0;
  for (size_t i = 1; i < all->count; i++) {
    if (compare(&all->items[kept], &all->items[i]) == 0)
      add_total(&all->items[kept], &all->items[i]);
    else
      all->items[++kept] = all->items[i];
  }
  all->count = kept + 1;
}

static idem_status collect(idem_metrics *const *metrics, size_t count, set_fn set_of,
                           const char *label, totals *all) {
  size_t room = most_rows(metrics, count, set_of);
  *all = (totals){.label = label,
                  .items = idem__calloc(&metrics[0]->alloc, room * sizeof *all->items)};
  if (!all->items) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    /* Each object still to come needs a place for its `other`. */
    collect_one(all, room - (count - 1 - i), set_of(metrics[i]));
  }
  qsort(all->items, all->count, sizeof *all->items, compare);
  merge_equal(all);
  return IDEM_OK;
}

/* ------------------------------------------------------------- writing */

static idem_status put_head(idem_buf *out, const char *name, const char *type, const char *help) {
  return idem_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* In a label value backslash, quote and newline are escaped, and nothing else is. */
static idem_status put_name(idem_buf *out, const total *sum) {
  if (!sum->name) return idem_buf_puts(out, "other");
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < sum->name_len && status == IDEM_OK; i++) {
    char c = sum->name[i];
    if (c == '\n')
      status = idem_buf_puts(out, "\\n");
    else if (c == '\\' || c == '"')
      status = idem_buf_put(out, (char[]){'\\', c}, 2);
    else
      status = idem_buf_put(out, &c, 1);
  }
  return status;
}

/* name{method="m" then `labels` (which begins with a comma or is empty) and the number. */
static idem_status put_count(idem_buf *out, const char *name, const char *label, const total *sum,
                             const char *labels, uint64_t number) {
  idem_status status = idem_buf_printf(out, "%s{%s=\"", name, label);
  if (status == IDEM_OK) status = put_name(out, sum);
  if (status != IDEM_OK) return status;
  return idem_buf_printf(out, "\"%s} %llu\n", labels, (unsigned long long)number);
}

static idem_status put_notifications(idem_buf *out, const totals *all) {
  static const char *const name = "mcp_notifications_total";
  idem_status status = put_head(out, name, "counter", "Notifications received, by method.");
  for (size_t i = 0; i < all->count && status == IDEM_OK; i++)
    if (all->items[i].notifications)
      status = put_count(out, name, all->label, &all->items[i], "", all->items[i].notifications);
  return status;
}

static idem_status put_outcomes(idem_buf *out, const char *name, const char *help,
                                const totals *all) {
  /* In the order of the alphabet, as other labels are. */
  static const struct {
    idem__outcome outcome;
    const char *labels;
  } rows[] = {
      {IDEM__OUTCOME_ASKED, ",status=\"asked\""},
      {IDEM__OUTCOME_CANCELLED, ",status=\"cancelled\""},
      {IDEM__OUTCOME_ERROR, ",status=\"error\""},
      {IDEM__OUTCOME_FAILED, ",status=\"failed\""},
      {IDEM__OUTCOME_OK, ",status=\"ok\""},
      {IDEM__OUTCOME_TIMEOUT, ",status=\"timeout\""},
  };
  idem_status status = put_head(out, name, "counter", help);
  for (size_t i = 0; i < all->count; i++) {
    const total *sum = &all->items[i];
    for (size_t k = 0; k < IDEM__OUTCOMES && status == IDEM_OK; k++) {
      uint64_t number = sum->outcomes[rows[k].outcome];
      if (number) status = put_count(out, name, all->label, sum, rows[k].labels, number);
    }
  }
  return status;
}

static idem_status put_sum(idem_buf *out, const char *name, const char *label, const total *sum) {
  idem_status status = idem_buf_printf(out, "%s_sum{%s=\"", name, label);
  if (status == IDEM_OK) status = put_name(out, sum);
  if (status != IDEM_OK) return status;
  return idem_buf_printf(out, "\"} %llu.%09llu\n", (unsigned long long)(sum->duration_ns / NANOS),
                         (unsigned long long)(sum->duration_ns % NANOS));
}

/* `bucket` and `counted` are the family's name with _bucket and _count behind it. */
typedef struct histogram {
  const char *name, *bucket, *counted, *help;
} histogram;

static idem_status put_histogram(idem_buf *out, const histogram *of, const char *label,
                                 const total *sum) {
  uint64_t so_far = 0;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i <= IDEM__BUCKETS && status == IDEM_OK; i++) {
    char bound[32] = ",le=\"";
    const char *name = i < IDEM__BUCKETS ? bucket_names[i] : "+Inf";
    idem_buf text = {.data = bound, .len = 5, .cap = sizeof bound - 1, .max = sizeof bound - 1};
    idem_buf_printf(&text, "%s\"", name);
    bound[text.len] = '\0';
    so_far += sum->buckets[i];
    status = put_count(out, of->bucket, label, sum, bound, so_far);
  }
  if (status == IDEM_OK) status = put_sum(out, of->name, label, sum);
  if (status != IDEM_OK) return status;
  return put_count(out, of->counted, label, sum, "", so_far);
}

static bool has_requests(const total *sum) {
  for (size_t i = 0; i <= IDEM__BUCKETS; i++)
    if (sum->buckets[i]) return true;
  return false;
}

static idem_status put_durations(idem_buf *out, const histogram *of, const totals *all) {
  idem_status status = put_head(out, of->name, "histogram", of->help);
  for (size_t i = 0; i < all->count && status == IDEM_OK; i++)
    if (has_requests(&all->items[i])) status = put_histogram(out, of, all->label, &all->items[i]);
  return status;
}

static idem_status put_errors(idem_buf *out, idem_metrics *const *metrics, size_t count) {
  idem_status status =
      put_head(out, "idem_errors_total", "counter", "Error answers sent, by JSON-RPC code.");
  for (size_t i = 0; i <= IDEM__ERROR_CODES && status == IDEM_OK; i++) {
    unsigned long long sum = 0;
    for (size_t k = 0; k < count; k++) sum += read_cell(&metrics[k]->errors[i]);
    if (i < IDEM__ERROR_CODES)
      status =
          idem_buf_printf(out, "idem_errors_total{code=\"%d\"} %llu\n", idem__error_codes[i], sum);
    else
      status = idem_buf_printf(out, "idem_errors_total{code=\"other\"} %llu\n", sum);
  }
  return status;
}

/* The part that is taken away is read first, so that a gauge never falls below zero because of what
 * happens in between. */
static idem_status put_family(idem_buf *out, const family *f, idem_metrics *const *metrics,
                              size_t count) {
  uint64_t minus = f->minus == IDEM__M_COUNTERS ? 0 : idem__metrics_total(metrics, count, f->minus);
  uint64_t plus = idem__metrics_total(metrics, count, f->counter);
  idem_status status = put_head(out, f->name, f->type, f->help);
  if (status != IDEM_OK) return status;
  return idem_buf_printf(out, "%s %llu\n", f->name,
                         (unsigned long long)(plus > minus ? plus - minus : 0));
}

static idem_status put_methods(idem_buf *out, const totals *methods) {
  static const histogram durations = {
      "mcp_request_duration_seconds", "mcp_request_duration_seconds_bucket",
      "mcp_request_duration_seconds_count", "Time from a request to its answer, by method."};
  idem_status status = put_notifications(out, methods);
  if (status == IDEM_OK)
    status =
        put_outcomes(out, "mcp_requests_total", "Requests ended, by method and outcome.", methods);
  return status == IDEM_OK ? put_durations(out, &durations, methods) : status;
}

static idem_status put_tools(idem_buf *out, const totals *tools) {
  static const histogram durations = {
      "mcp_tool_duration_seconds", "mcp_tool_duration_seconds_bucket",
      "mcp_tool_duration_seconds_count", "Time from the call of a tool to its end, by tool."};
  idem_status status = put_outcomes(out, "mcp_tool_calls_total",
                                    "Calls of tools ended, by tool and outcome.", tools);
  return status == IDEM_OK ? put_durations(out, &durations, tools) : status;
}

static idem_status put_all(idem_buf *out, const totals *methods, const totals *tools,
                           idem_metrics *const *metrics, size_t count) {
  idem_status status = put_methods(out, methods);
  if (status == IDEM_OK) status = put_tools(out, tools);
  if (status == IDEM_OK) status = put_errors(out, metrics, count);
  for (size_t i = 0; i < sizeof families / sizeof *families && status == IDEM_OK; i++)
    status = put_family(out, &families[i], metrics, count);
  return status == IDEM_OK ? idem_buf_put(out, "", 1) : status;
}

idem_status idem_metrics_render(idem_metrics *const *metrics, size_t count, char **text,
                                size_t *len) {
  *text = NULL;
  *len = 0;
  if (count == 0) return IDEM_E_INVAL;
  totals methods = {0}, tools = {0};
  idem_buf out;
  idem_buf_init(&out, &metrics[0]->alloc, TEXT_MAX);
  idem_status status = collect(metrics, count, methods_of, "method", &methods);
  if (status == IDEM_OK) status = collect(metrics, count, tools_of, "tool", &tools);
  if (status == IDEM_OK) status = put_all(&out, &methods, &tools, metrics, count);
  idem__free(&metrics[0]->alloc, methods.items);
  idem__free(&metrics[0]->alloc, tools.items);
  if (status != IDEM_OK) {
    idem_buf_deinit(&out);
    return status;
  }
  *text = out.data;
  *len = out.len - 1;
  return IDEM_OK;
}

void idem_metrics_text_free(idem_metrics *owner, char *text) { idem__free(&owner->alloc, text); }
