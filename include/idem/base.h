/* idem/base.h - what every part of idem shares: statuses, the allocator, logs, metrics.
 * Knows nothing of JSON or of any operating system. Usable from C11 and C++17. */
#ifndef IDEM_BASE_H
#define IDEM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define IDEM_API __attribute__((visibility("default")))
#define IDEM_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define IDEM_API
#define IDEM_PRINTF(fmt, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define IDEM_VERSION_MAJOR 0
#define IDEM_VERSION_MINOR 1
#define IDEM_VERSION_PATCH 0
#define IDEM_VERSION "0.1.0"

/* The version of the library in use, as strict SemVer. */
IDEM_API const char *idem_version(void);

/* What our own functions return. What travels on the wire are IDEM_RPC_... codes (rpc.h):
 * two audiences, two enums. */
typedef enum idem_status {
  IDEM_OK = 0,
  IDEM_E_NOMEM = -1,     /* the allocator said no */
  IDEM_E_INVAL = -2,     /* an argument that can never be right */
  IDEM_E_STATE = -3,     /* right call, wrong moment */
  IDEM_E_LIMIT = -4,     /* a configured limit was reached */
  IDEM_E_PROTO = -5,     /* the peer broke the protocol */
  IDEM_E_CLOSED = -6,    /* the conn is closed or closing */
  IDEM_E_TIMEOUT = -7,   /* the time allowed has passed */
  IDEM_E_CANCELLED = -8, /* cancelled by one of the two sides */
  IDEM_E_NOTFOUND = -9,  /* no such thing */
  IDEM_E_EXISTS = -10,   /* there is one already */
  IDEM_E_REMOTE = -11,   /* the peer answered with an error */
  IDEM_E_SYS = -12       /* the operating system refused; errno or the log says why */
} idem_status;

/* A short English name ("no memory", "limit reached"); never NULL, never freed. */
IDEM_API const char *idem_status_text(idem_status status);

/* The allocator. All memory of an object comes from the allocator it was made with, which must
 * outlive it. `realloc` gets the old size; `free` is never called with NULL. Zero-initialised
 * (all members NULL) means the C library's. */
typedef struct idem_alloc {
  void *(*malloc)(void *ctx, size_t size);
  void *(*realloc)(void *ctx, void *ptr, size_t old_size, size_t size);
  void (*free)(void *ctx, void *ptr);
  void *ctx;
} idem_alloc;

/* ----------------------------------------------------------- JSON in C */

/* JSON as a text of C, without escaped quotes: IDEM_JSON({"type": "object"}) is "{\"type\": \"object\"}".
 * What the preprocessor reads as words of C must be such: a backslash in a string is doubled (a pattern
 * "\\d+" is written so in JSON, too), and names that are macros stay as they are within quotes only. */
#define IDEM_JSON(...) #__VA_ARGS__

/* ------------------------------------------------------------------ logs */

typedef enum idem_log_level {
  IDEM_LOG_DEBUG = 0,
  IDEM_LOG_INFO = 1,
  IDEM_LOG_WARN = 2,
  IDEM_LOG_ERROR = 3,
  IDEM_LOG_OFF = 4
} idem_log_level;

/* "debug", "info", "warn", "error" in any case; false for anything else. */
IDEM_API bool idem_log_level_parse(const char *text, size_t len, idem_log_level *level);
IDEM_API const char *idem_log_level_text(idem_log_level level);

typedef enum idem_log_format { IDEM_LOG_TEXT = 0, IDEM_LOG_JSON = 1 } idem_log_format;

/* One log record. Strings are borrowed for the call and not yet escaped or redacted; NULL (or
 * length 0 with NULL) means the field is absent. `id` is the raw JSON token of a request id. Method, id and
 * detail are redacted. */
typedef struct idem_log_record {
  idem_log_level level;
  const char *message; /* ours: a constant sentence, never a peer's text; escaped, not redacted */
  const char *method;
  size_t method_len;
  const char *id;
  size_t id_len;
  const char *peer;   /* who: "stdio", "tcp 127.0.0.1:4242" */
  const char *detail; /* free text, may hold what a peer sent: escaped, cut and redacted */
  size_t detail_len;
  bool plain; /* the detail is the operator's own: paths stand whole, added secrets still go */
} idem_log_record;

typedef struct idem_log idem_log;

typedef struct idem_log_opts {
  idem_log_level level; /* least severe level written; default (0) is debug: set it */
  idem_log_format format;
  bool color; /* text only; the caller decides (TTY, NO_COLOR) */
  /* Where finished lines go, one whole line of at most 4 KiB a call, newline included. Called with
   * the log's lock held, so never by two threads at once; it must not log itself. */
  void (*write)(void *ctx, const char *line, size_t len);
  void *write_ctx;
  /* Wall clock in microseconds since 1970; NULL leaves the timestamp out. */
  uint64_t (*wall_us)(void *ctx);
  void *wall_ctx;
  bool
      brief_time; /* text only: hours, minutes and seconds as wall_us gives them, which may be local time */
  const idem_alloc *alloc; /* NULL: the C library's */
} idem_log_opts;

/* A log may be shared by threads. INVAL without `write`, NOMEM. idem_log_free takes NULL. */
IDEM_API idem_status idem_log_new(const idem_log_opts *opts, idem_log **out);
IDEM_API void idem_log_free(idem_log *log);
IDEM_API void idem_log_set_level(idem_log *log, idem_log_level level);
IDEM_API idem_log_level idem_log_get_level(const idem_log *log);
/* Whether a record of this level would be written or shown: ask before work is spent on making one. */
IDEM_API bool idem_log_enabled(const idem_log *log, idem_log_level level);
/* Writes the record if its level is enabled; a NULL log drops it. Never fails, never allocates: a
 * field that does not fit is cut and ends in "...". */
IDEM_API void idem_log_write(idem_log *log, const idem_log_record *record);
/* A message with a formatted detail. */
IDEM_API void idem_logf(idem_log *log, idem_log_level level, const char *message,
                        const char *detail_format, ...) IDEM_PRINTF(4, 5);
/* A secret value that must never appear in a line (copied): INVAL under 4 bytes, LIMIT over 1,024
 * bytes or past 64 secrets (one that is known counts once), NOMEM. Safe while other threads log. */
IDEM_API idem_status idem_log_add_secret(idem_log *log, const char *secret, size_t len);

/* Shows records from `level` on to `fn`, also those that the log's own level leaves out, as a line of JSON of at most
 * 4 KiB, newline included, whatever the log's own format; NULL: to nobody any more. Called as `write` is, on the
 * thread that logs. */
typedef void (*idem_log_watch_fn)(idem_log_level level, const char *line, size_t len, void *user);
IDEM_API void idem_log_watch(idem_log *log, idem_log_level level, idem_log_watch_fn fn, void *user);

/* --------------------------------------------------------------- metrics */

/* Counters, gauges and histograms of one thread. Only the thread that owns it writes; any thread
 * may render a set of them (sums over the set) at the same time. */
typedef struct idem_metrics idem_metrics;

/* alloc may be NULL. NOMEM. */
IDEM_API idem_status idem_metrics_new(const idem_alloc *alloc, idem_metrics **out);
IDEM_API void idem_metrics_free(idem_metrics *metrics);
/* The sum over `count` metrics (at least one: INVAL) as Prometheus text, NUL-terminated; *text
 * comes from the first one's allocator, which must then be safe to use from the calling thread, and
 * is freed with idem_metrics_text_free and that first one as owner. NOMEM; LIMIT past 256 MiB of
 * text. */
IDEM_API idem_status idem_metrics_render(idem_metrics *const *metrics, size_t count, char **text,
                                         size_t *len);
IDEM_API void idem_metrics_text_free(idem_metrics *owner, char *text);

/* What a chart wants of them: sums over all methods. Counts grow; the two of what there is now do not. */
#define IDEM_METRICS_BUCKETS 17
typedef struct idem_metrics_sums {
  uint64_t requests;                      /* answered, well or not */
  uint64_t errors;                        /* error answers, and tools that said isError */
  uint64_t connections, sessions;         /* now */
  uint64_t buckets[IDEM_METRICS_BUCKETS]; /* requests by their time, each bucket on its own */
} idem_metrics_sums;
/* Adds those of one to `sums`; from any thread. */
IDEM_API void idem_metrics_add_to(const idem_metrics *metrics, idem_metrics_sums *sums);
/* The time that `percent` of the requests between two moments took at most, in microseconds, as near as buckets
 * tell; 0: there were none. */
IDEM_API uint64_t idem_metrics_percentile_us(const idem_metrics_sums *before,
                                             const idem_metrics_sums *now, unsigned percent);

/* For records a peer can cause at will: at most ten a second for each bucket, then one that says
 * how many were left out. Zero-initialised; belongs to one thread (usually to a conn). */
typedef struct idem_log_bucket {
  uint64_t start_ms;
  uint32_t count;
  uint64_t suppressed;
  idem_log_level level;
  const char *message;
} idem_log_bucket;
/* Says how many were left out, if any: for when the bucket's owner goes. */
IDEM_API void idem_log_bucket_end(idem_log *log, idem_log_bucket *bucket);

#ifdef __cplusplus
}
#endif
#endif
