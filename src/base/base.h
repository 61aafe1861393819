/* base.h - what src/base offers the other folders: memory, a timer heap, text helpers, locks, counters;
 * and with them what everybody is offered (idem/text.h, idem/containers.h): bounded buffers, lists,
 * maps, redaction. Knows no JSON and no operating system. See docs/internals/base.md. */
#ifndef IDEM_BASE_PRIVATE_H
#define IDEM_BASE_PRIVATE_H

#include "hash.h"

#include <idem/base.h>
#include <idem/containers.h>
#include <idem/text.h>
#include <stdarg.h>
#include <stdatomic.h>

/* ---------------------------------------------------- where code is laid */

/* A message touches code of every folder, and what it costs is mostly fetching that code. So what
 * only faults and rare events need is kept out of the way of what every message runs through: COLD
 * is laid elsewhere and makes the branch to it the unlikely one; APART is merely not inlined; HOT
 * is on the way of every message and laid beside the others of its kind; EARLY is run by every
 * server as it begins, reads or writes, and laid beside HOT, so that the kernel, which maps sixteen
 * pages where one is touched, maps what is needed; INLINE is a part of one of those that has a name
 * of its own for the reader alone. LIKELY and UNLIKELY stand only where
 * measuring shows them: on a message's way through src/rpc (docs/internals/bench.md). */
#if defined(__GNUC__)
#define IDEM__COLD __attribute__((cold, noinline))
#define IDEM__APART __attribute__((noinline))
#define IDEM__HOT __attribute__((hot, aligned(64)))
#define IDEM__INLINE inline __attribute__((always_inline))
#define IDEM__LIKELY(condition) __builtin_expect(!!(condition), 1)
#define IDEM__UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#define IDEM__COLD
#define IDEM__APART
#define IDEM__HOT
#define IDEM__INLINE inline
#define IDEM__LIKELY(condition) (condition)
#define IDEM__UNLIKELY(condition) (condition)
#endif
#if defined(__GNUC__) && defined(__ELF__)
#define IDEM__EARLY __attribute__((section(".text.startup.idem")))
#else
#define IDEM__EARLY
#endif

/* Out of the way of the appends in text.h. (By a macro, or linters would call it redundant.) */
#define IDEM__DECLARE_COLD(declaration) IDEM__COLD declaration
IDEM__DECLARE_COLD(idem_status idem_buf_grow(idem_buf *buf, size_t extra));

/* ------------------------------------------------------------- memory */

/* Fills in the C library's functions where `alloc` is NULL or zero. The functions below accept such
 * an allocator too. */
idem_alloc idem__alloc_or_default(const idem_alloc *alloc);
void *idem__malloc(const idem_alloc *alloc, size_t size); /* NULL for size 0 too */
void *idem__calloc(const idem_alloc *alloc, size_t size);
/* Takes NULL (then it is idem__malloc); size 0 frees and returns NULL. On failure `ptr` lives on.
 */
void *idem__realloc(const idem_alloc *alloc, void *ptr, size_t old_size, size_t size);
void idem__free(const idem_alloc *alloc, void *ptr);                        /* takes NULL */
char *idem__strndup(const idem_alloc *alloc, const char *text, size_t len); /* adds a NUL */

/* ------------------------------------------------------------ timer heap */

/* Intrusive binary min-heap of deadlines. A timer sits in at most one heap; index 0 = not in one,
 * so a zeroed timer is ready for use. */
typedef struct idem__timer {
  uint64_t at_ms;
  size_t index;
} idem__timer;
typedef struct idem__heap {
  idem__timer **items; /* items[1..count] */
  size_t count;
  size_t cap;
  const idem_alloc *alloc;
} idem__heap;

void idem__heap_init(idem__heap *heap, const idem_alloc *alloc);
/* Timers still in it are marked as in none. */
void idem__heap_deinit(idem__heap *heap);
/* Adds the timer, or moves it if it is in this heap already (which cannot fail): OK, NOMEM. */
idem_status idem__heap_put(idem__heap *heap, idem__timer *timer, uint64_t at_ms);
void idem__heap_remove(idem__heap *heap, idem__timer *timer); /* no-op when not in it */
idem__timer *idem__heap_first(const idem__heap *heap);        /* NULL when empty */

/* ------------------------------------------------------------- unfinished */

/* Halves of messages: what has come of each that spans pieces, and whose rest has not. All who share one of these are bounded
 * together, in bytes; see unfinished.c. */
#define IDEM__UNFINISHED_BYTES ((size_t)256 << 20) /* where nobody says otherwise */
typedef struct idem__unfinished {
  idem_list halves; /* who began first in front */
  size_t bytes;
} idem__unfinished;
/* One sender's. Zeroed, with its function, it is ready for use. */
typedef struct idem__half {
  idem_list node;
  size_t bytes; /* 0: it is not counted, and in no list */
  /* It is counted no more, and its sender is to be refused: others need the room. */
  void (*give_way)(struct idem__half *half, uint64_t now_ms);
} idem__half;

void idem__unfinished_init(idem__unfinished *all);
/* So much memory is taken by this one now. Past `max` those that began first give way, itself perhaps among them. */
void idem__unfinished_count(idem__unfinished *all, idem__half *half, size_t bytes, size_t max,
                            uint64_t now_ms);
void idem__unfinished_forget(idem__unfinished *all, idem__half *half);

/* ----------------------------------------------------------- spare nodes */

/* As a stack, linked by `next`: the one used last, which the cache still holds, first. */
static inline void idem__spare_push(idem_list **top, idem_list *node) {
  node->next = *top;
  *top = node;
}
static inline idem_list *idem__spare_pop(idem_list **top) {
  idem_list *node = *top;
  if (node != NULL) *top = node->next;
  return node;
}

/* ------------------------------------------------------------------ text */

static inline bool idem__is_digit(char c) { return c >= '0' && c <= '9'; }
static inline char idem__ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
bool idem__text_equal_nocase(const char *a, size_t a_len, const char *b, size_t b_len); /* ASCII */
/* Two digits a byte, in lower case, and a NUL: `text` has room for 2 * len + 1. */
void idem__text_hex(char *text, const uint8_t *bytes, size_t len);

/* ------------------------------------------------------------------ lock */

/* For sections of a few instructions: the core knows no mutex of an operating system. Who waits
 * longer than a moment gives its time slice away where C can say so. */
typedef struct idem__lock {
  atomic_flag busy;
} idem__lock;
void idem__lock_init(idem__lock *lock);
void idem__lock_take(idem__lock *lock);
void idem__lock_give(idem__lock *lock);

/* ---------------------------------------------------------------- digests */

/* HMAC-SHA-256 with a key of 32 bytes: hash longer ones first. */
typedef struct idem__hmac {
  idem_sha256 inner, outer;
} idem__hmac;
void idem__hmac_init(idem__hmac *hmac, const uint8_t key[IDEM_SHA256_BYTES]);
void idem__hmac_add(idem__hmac *hmac, const void *bytes, size_t len);
void idem__hmac_end(idem__hmac *hmac, uint8_t tag[IDEM_SHA256_BYTES]);
/* In a time that does not depend on where they differ. */
bool idem__equal_secret(const void *a, const void *b, size_t len);

/* ------------------------------------------------------------------ logs */

/* What a log begins with, so that the path of every message asks without a call. */
typedef struct idem__log_head {
  atomic_int level;
} idem__log_head;
static inline bool idem__log_is_debug(const idem_log *log) {
  const idem__log_head *head = (const void *)log;
  return head && atomic_load_explicit(&head->level, memory_order_relaxed) == IDEM_LOG_DEBUG;
}

/* For records a peer can cause at will: see idem_log_bucket. */
/* record->message must be a constant: the bucket keeps it. */
void idem__log_limited(idem_log *log, const idem_log_record *record, idem_log_bucket *bucket,
                       uint64_t now_ms);

/* --------------------------------------------------------------- metrics */

/* The kinds of thing that are counted. One row each in metrics.c: name, help, type, labels. */
typedef enum idem__counter {
  IDEM__M_BYTES_IN,
  IDEM__M_BYTES_OUT,
  IDEM__M_CONNECTIONS_OPENED,
  IDEM__M_CONNECTIONS_CLOSED, /* open connections = opened - closed, rendered as a gauge */
  IDEM__M_REQUESTS_STARTED,
  IDEM__M_REQUESTS_ENDED, /* in flight = started - ended, rendered as a gauge */
  IDEM__M_SESSIONS_OPENED,
  IDEM__M_SESSIONS_CLOSED,
  IDEM__M_STORE_SILENT,
  IDEM__M_STORE_HEARD, /* silent now = silent - heard */
  IDEM__M_STORE_FULL,
  IDEM__M_STORE_ROOM, /* full now = full - room */
  IDEM__M_STORE_EMPTIED,
  IDEM__M_RATE_LIMITED,
  IDEM__M_AUTH_FAILURES,
  IDEM__M_REFUSED_CONNECTIONS,
  IDEM__M_UNFINISHED_REFUSED,
  IDEM__M_STORE_CONNECTED,
  IDEM__M_STORE_LOST, /* connected now = connected - lost */
  IDEM__M_STORE_UNKNOWN,
  IDEM__M_STORE_REFUSED,
  IDEM__M_COUNTERS /* how many */
} idem__counter;

/* The label of a count, a method or a tool: 0 is `other`, 1.. are registered names. */
typedef uint32_t idem__method_label;

/* How a request or the call of a tool ended. The first four are all that requests know. */
typedef enum idem__outcome {
  IDEM__OUTCOME_OK,
  IDEM__OUTCOME_ERROR, /* an error answer */
  IDEM__OUTCOME_CANCELLED,
  IDEM__OUTCOME_TIMEOUT, /* an error answer, because time was up */
  IDEM__OUTCOME_FAILED,  /* a tool said isError */
  IDEM__OUTCOME_ASKED,   /* a tool needs input first, and is called again with it */
  IDEM__OUTCOMES
} idem__outcome;

/* Registers a name (valid UTF-8 of at most 256 bytes), or finds it again; the same name gives the
 * same label in every metrics that registers the same names in the same order. The name "other" is
 * label 0. On failure (NOMEM, LIMIT, INVAL) the label is 0, which may be used as well. Owner's
 * thread only, but safe while others render. */
idem_status idem__metrics_label(idem_metrics *metrics, const char *method, size_t len,
                                idem__method_label *label);
/* All of these take a NULL metrics and then do nothing. */
void idem__metrics_add(idem_metrics *metrics, idem__counter counter, uint64_t n);
void idem__metrics_notification(idem_metrics *metrics, idem__method_label label);
/* `code` 0 means no error code. */
void idem__metrics_request(idem_metrics *metrics, idem__method_label label, idem__outcome outcome,
                           int code, uint64_t duration_ns);
/* The same for tools: names of their own, and rows. `duration_ns` UINT64_MAX: not known. */
idem_status idem__metrics_tool_label(idem_metrics *metrics, const char *tool, size_t len,
                                     idem__method_label *label);
void idem__metrics_tool(idem_metrics *metrics, idem__method_label label, idem__outcome outcome,
                        uint64_t duration_ns);
/* A request that ended without an answer: cancelled, or who asked has gone. */
void idem__metrics_cancelled(idem_metrics *metrics, idem__method_label label);
/* The sum of a counter over several threads. */
uint64_t idem__metrics_total(idem_metrics *const *metrics, size_t count, idem__counter counter);
/* An error answer that belongs to no method (parse errors, refused messages). */
void idem__metrics_error(idem_metrics *metrics, int code);

#endif
