/* base.h - what src/base offers the other folders: memory, bounded buffers, maps, a timer heap,
 * text helpers, redaction, counters. Knows no JSON and no operating system.
 * See docs/internals/base.md. */
#ifndef IDEM_BASE_PRIVATE_H
#define IDEM_BASE_PRIVATE_H

#include "hash.h"

#include <idem/base.h>
#include <stdarg.h>
#include <stdatomic.h>

/* ---------------------------------------------------- where code is laid */

/* A message touches code of every folder, and what it costs is mostly fetching that code. So what
 * only faults and rare events need is kept out of the way of what every message runs through: COLD
 * is laid elsewhere and makes the branch to it the unlikely one; APART is merely not inlined; HOT
 * is on the way of every message and laid beside the others of its kind; INLINE is a part of one
 * of those that has a name of its own for the reader alone. LIKELY and UNLIKELY stand only where
 * measuring shows them: on a message's way through src/rpc (docs/internals/bench.md). */
#if defined(__GNUC__)
#define IDEM__COLD __attribute__((cold, noinline))
#define IDEM__APART __attribute__((noinline))
#define IDEM__HOT __attribute__((hot))
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

/* ------------------------------------------------------ bounded buffer */

/* A growing byte buffer that is born with a maximum: len and cap never exceed max. A failed append
 * leaves it as it was. The fast paths are inline; growth is not. */
typedef struct idem__buf {
  char *data;
  size_t len;
  size_t cap;
  size_t max;
  const idem_alloc *alloc;
} idem__buf;

void idem__buf_init(idem__buf *buf, const idem_alloc *alloc, size_t max);
/* Frees the memory and empties the buffer, which stays usable. Not for a fixed one. */
void idem__buf_deinit(idem__buf *buf);
/* Makes room for `extra` more bytes: OK, LIMIT (past max) or NOMEM. */
IDEM__COLD idem_status idem__buf_grow(idem__buf *buf, size_t extra);
/* Gives back memory above `keep` bytes of capacity; only when empty. */
void idem__buf_trim(idem__buf *buf, size_t keep);
/* Gives back what is not in use. */
void idem__buf_fit(idem__buf *buf);
/* Removes the first n bytes (all of them if there are fewer). */
void idem__buf_consume(idem__buf *buf, size_t n);
idem_status idem__buf_printf(idem__buf *buf, const char *format, ...) IDEM_PRINTF(2, 3);
idem_status idem__buf_vprintf(idem__buf *buf, const char *format, va_list args) IDEM_PRINTF(2, 0);

/* A buffer over memory of the caller's: never grows, never allocates for appends, needs no deinit.
 */
static inline void idem__buf_fixed(idem__buf *buf, char *storage, size_t size) {
  *buf = (idem__buf){.data = storage, .cap = size, .max = size};
}

static inline idem_status idem__buf_reserve(idem__buf *buf, size_t extra) {
  return buf->cap - buf->len >= extra ? IDEM_OK : idem__buf_grow(buf, extra);
}
static inline idem_status idem__buf_put(idem__buf *buf, const void *bytes, size_t len) {
  if (buf->cap - buf->len < len) {
    idem_status status = idem__buf_grow(buf, len);
    if (status != IDEM_OK) return status;
  }
  if (len) __builtin_memcpy(buf->data + buf->len, bytes, len);
  buf->len += len;
  return IDEM_OK;
}
#define idem__buf_puts(buf, literal) idem__buf_put((buf), "" literal, sizeof(literal) - 1)

/* ------------------------------------------------------------- hash map */

/* Keyed by bytes; open addressing, grows by doubling, bounded by `max` entries (IDEM__MAP_MAX
 * unless the owner sets it lower after init). Keys are borrowed: the value's owner keeps them alive
 * until removal. They may be a peer's: nobody can choose keys that collide (hash.h). */
#define IDEM__MAP_MAX ((size_t)1 << 24)
typedef struct idem__map_entry {
  const char *key;
  size_t key_len;
  uint64_t hash;
  void *value; /* NULL: free slot */
} idem__map_entry;
typedef struct idem__map {
  idem__map_entry *slots;
  size_t cap; /* a power of two, or 0 */
  size_t count;
  size_t max;
  uint64_t seed;
  const idem_alloc *alloc;
} idem__map;

void idem__map_init(idem__map *map, const idem_alloc *alloc, uint64_t seed);
void idem__map_deinit(idem__map *map);
void *idem__map_get(const idem__map *map, const char *key, size_t key_len);
idem_status idem__map_put(idem__map *map, const char *key, size_t key_len,
                          void *value); /* OK, EXISTS, LIMIT, NOMEM; INVAL for a NULL value */
void *idem__map_remove(idem__map *map, const char *key, size_t key_len);
/* Iterate: start with *pos = 0; NULL at the end. Removing the entry just returned is allowed only
 * by ending the walk. */
void *idem__map_next(const idem__map *map, size_t *pos);
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

/* ----------------------------------------------------------- linked list */

/* Intrusive, circular, doubly linked. A list head and a detached node point to themselves. */
typedef struct idem__list {
  struct idem__list *prev, *next;
} idem__list;
static inline void idem__list_init(idem__list *list) { list->prev = list->next = list; }
static inline bool idem__list_empty(const idem__list *list) { return list->next == list; }
static inline void idem__list_append(idem__list *list, idem__list *node) {
  node->prev = list->prev;
  node->next = list;
  list->prev->next = node;
  list->prev = node;
}
static inline void idem__list_remove(idem__list *node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  idem__list_init(node);
}
/* For a node that is mostly in no list: looks before it writes. */
static inline void idem__list_leave(idem__list *node) {
  if (!idem__list_empty(node)) idem__list_remove(node);
}
/* Spare nodes as a stack, linked by `next`: the one used last, which the cache still holds, first. */
static inline void idem__spare_push(idem__list **top, idem__list *node) {
  node->next = *top;
  *top = node;
}
static inline idem__list *idem__spare_pop(idem__list **top) {
  idem__list *node = *top;
  if (node != NULL) *top = node->next;
  return node;
}
#define IDEM__CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* ------------------------------------------------------------------ text */

static inline bool idem__is_digit(char c) { return c >= '0' && c <= '9'; }
/* -1: not a hexadecimal digit. */
static inline int idem__hex_value(char c) {
  if (idem__is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
static inline char idem__ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
bool idem__text_equal_nocase(const char *a, size_t a_len, const char *b, size_t b_len); /* ASCII */
bool idem__utf8_valid(const char *text, size_t len);
/* Reads one character: its length and *code, or 0 for the end and for invalid bytes. */
size_t idem__utf8_decode(const char *text, size_t len, uint32_t *code);
/* Length of the longest prefix of at most `max` bytes that does not cut a UTF-8 sequence. */
size_t idem__utf8_cut(const char *text, size_t len, size_t max);
/* Appends `text`, at most `max` bytes of it (then "..."; SIZE_MAX for all), with C0, DEL, C1,
 * bidirectional marks, line and paragraph separators and invalid bytes written as \n \t \xNN or
 * \u{NNNN}; a backslash is doubled. Nothing a peer sends can forge a log line. */
idem_status idem__text_escape(idem__buf *out, const char *text, size_t len, size_t max);

/* Appends `text` as a JSON string, quotes included; invalid UTF-8 becomes U+FFFD, and what
 * idem__text_escape would not let through is written as \uNNNN. */
idem_status idem__text_json_string(idem__buf *out, const char *text, size_t len);

/* ---------------------------------------------------------------- base64 */

typedef enum idem__base64_alphabet {
  IDEM__BASE64_STANDARD, /* RFC 4648 section 4: + and /, padded */
  IDEM__BASE64_URL       /* section 5: - and _, never padded */
} idem__base64_alphabet;

idem_status idem__base64_encode(idem__buf *out, const void *bytes, size_t len,
                                idem__base64_alphabet alphabet);
/* Strict, so that every value has one spelling: INVAL for foreign digits (white space too), for
 * padding that is missing, surplus or misplaced, and for bits behind the last byte. The buffer is
 * then as it was. */
idem_status idem__base64_decode(idem__buf *out, const char *text, size_t len,
                                idem__base64_alphabet alphabet);

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

#define IDEM__SHA256_BYTES 32
typedef struct idem__sha256 {
  uint32_t state[8];
  uint64_t len;
  uint8_t block[64];
} idem__sha256;
void idem__sha256_init(idem__sha256 *sha);
void idem__sha256_add(idem__sha256 *sha, const void *bytes, size_t len);
void idem__sha256_end(idem__sha256 *sha, uint8_t digest[IDEM__SHA256_BYTES]);

/* HMAC-SHA-256 with a key of 32 bytes: hash longer ones first. */
typedef struct idem__hmac {
  idem__sha256 inner, outer;
} idem__hmac;
void idem__hmac_init(idem__hmac *hmac, const uint8_t key[IDEM__SHA256_BYTES]);
void idem__hmac_add(idem__hmac *hmac, const void *bytes, size_t len);
void idem__hmac_end(idem__hmac *hmac, uint8_t tag[IDEM__SHA256_BYTES]);
/* In a time that does not depend on where they differ. */
bool idem__equal_secret(const void *a, const void *b, size_t len);

/* ------------------------------------------------------------- redaction */

/* Appends `text` with secrets replaced by [redacted]: bearer and basic credentials, Authorization
 * and Cookie values, query and key=value secrets, key-like JSON members (password, token, secret,
 * api_key, ...), home and absolute paths, and the values in `secrets`. Linear in len for a given
 * set of secrets; which text is taken for what is listed in docs/internals/base.md. */
typedef struct idem__secret {
  char *text;
  size_t len;
} idem__secret;
idem_status idem__redact(idem__buf *out, const char *text, size_t len, const idem__secret *secrets,
                         size_t secret_count);
/* The same for who may know of some paths. */
typedef struct idem__redaction {
  const idem__secret *secrets;
  size_t secret_count;
  const char *const *folders; /* real paths, end with NULL: what is in them is named from there */
  bool keep_paths;            /* all of them */
} idem__redaction;
idem_status idem__redact_by(idem__buf *out, const char *text, size_t len,
                            const idem__redaction *rules);
/* The same for a log line: reads about as much as fits into out->max, writes what fits, never fails
 * and never shows a part of a secret. `only_secrets` leaves the other rules out. */
void idem__redact_cut(idem__buf *out, const char *text, size_t len, const idem__secret *secrets,
                      size_t secret_count, bool only_secrets);

/* ------------------------------------------------------------------ logs */

/* Whether a record of this level would be written or shown: ask before work is spent on making one. */
bool idem__log_enabled(const idem_log *log, idem_log_level level);
/* Appends a text without what the log keeps secret (paths stand). NOMEM, LIMIT. */
idem_status idem__log_redact(const idem_log *log, idem__buf *out, const char *text, size_t len);
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
  IDEM__M_RATE_LIMITED,
  IDEM__M_AUTH_FAILURES,
  IDEM__M_REFUSED_CONNECTIONS,
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
