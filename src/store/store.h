/* store.h - what several loops, processes or machines must agree on, kept as bytes behind one
 * interface: sessions, their replay logs, tasks, news of changes.
 *
 * A store keeps *records*. A record has a key (a space and a name), a value, a version, a time to
 * live, and beside its value a bounded log of entries and a counter, which go when it goes. An
 * operation is data, so that a remote store may queue it, send several in one round trip, and answer
 * later; a local one answers before the call returns. Whoever asks names the queue of its own thread,
 * where it hears of the answer. Who may see a record is written in its value
 * by the caller (a session's principal): the store compares nothing but keys and versions.
 *
 * Every store passes tests/unit/store. See docs/internals/store.md and decisions 10 and 13. */
#ifndef IDEM_STORE_PRIVATE_H
#define IDEM_STORE_PRIVATE_H

#include "../base/base.h"

typedef struct idem__store idem__store;

typedef enum idem__store_space {
  IDEM__STORE_SESSIONS, /* legacy sessions over HTTP, with the log of their events */
  IDEM__STORE_TASKS,
  IDEM__STORE_NEWS,    /* no records: only what is told (a resource was updated) */
  IDEM__STORE_KEYS,    /* secrets of all who share the store: what seals requestState */
  IDEM__STORE_ONCE,    /* calls with a key: who runs one, or what it came to */
  IDEM__STORE_NODES,   /* the servers that share the store, as long as they live */
  IDEM__STORE_LETTERS, /* what one server has for another, until that takes it */
  IDEM__STORE_RATES,   /* how often clients asked */
  IDEM__STORE_SPACES
} idem__store_space;

#define IDEM__STORE_NAME_MAX 8192u /* bytes of a name; it need not be text */
#define IDEM__STORE_GROUP_MAX 255u

/* ------------------------------------------------------------- operations */

typedef enum idem__store_verb {
  IDEM__STORE_GET,   /* value and version */
  IDEM__STORE_TOUCH, /* version alone; ttl_ms from now on. `number` may say that it was done although there is no memory left
                         (IDEM__STORE_FULL_OUTSIDE) */
  IDEM__STORE_PEEK, /* version alone; `number` is 1 where TOUCH with this ttl_ms would change nothing,
                         as far as the store can tell without a change */
  IDEM__STORE_PUT, /* makes a record (in `group`) or changes its value, as `expect` says; `limit`:
                         records of the space, `group_limit`: of the group; ttl_ms from now on. Gives
                         the new version */
  IDEM__STORE_REMOVE, /* as `expect` says */
  IDEM__STORE_APPEND, /* an entry of the record's log; `limit`: bytes the log may hold, the oldest
                         entries go first. Gives its number: 1, 2, ... A larger entry has a number and
                         is not kept */
  IDEM__STORE_READ, /* each entry of the log numbered above `after`; gives the last number there was,
                         kept or not */
  IDEM__STORE_COUNT, /* adds `after` to the record's counter, 0 at first; gives what it was */
  IDEM__STORE_LIST,  /* each record of a space and group born after `after`, by birth, at most
                         `limit` (0: all). Page by page, each that is there from the first to the last is
                         shown once, and one that is born meanwhile at most once */
  IDEM__STORE_TELL   /* tells who watches the space; nothing is kept */
} idem__store_verb;

/* `expect` of PUT and REMOVE: the version the caller has seen, or one of these. */
#define IDEM__STORE_ABSENT 0u
#define IDEM__STORE_ANY UINT64_MAX

/* What an operation came to. `bytes` are the store's until the function returns.
 * OK; NOTFOUND: no such record; EXISTS: it was to be absent; STATE: its version is another, which
 * `version` tells; LIMIT: there is no room, and `number` says why (IDEM__STORE_FULL_...); INVAL: no such name or space;
 * NOMEM; from a store that answers later also SYS, TIMEOUT and CLOSED (nobody waits any more): then it
 * is not known whether it happened, unless `number` says that it did not (IDEM__STORE_NOT_DONE). */
/* `number` of SYS: it was never sent, or was refused before it began, so it certainly did not happen. */
#define IDEM__STORE_NOT_DONE 4u
#define IDEM__STORE_FULL_SPACE                                                                     \
  0u /* the space, or the store, has as much as it may: what goes makes room */
#define IDEM__STORE_FULL_GROUP 1u
#define IDEM__STORE_FULL_ELSE 2u /* a queue is full, of whatever: later there may be room */
#define IDEM__STORE_FULL_OUTSIDE                                                                   \
  3u /* who keeps it all has no memory or disk left; nothing that goes here makes room for sure */
typedef struct idem__store_answer {
  idem_status status;
  uint64_t version;
  uint64_t number;
  const char *bytes;
  size_t len;
} idem__store_answer;
static inline bool idem__store_did_not(const idem__store_answer *answer) {
  return answer->status == IDEM_E_SYS && answer->number == IDEM__STORE_NOT_DONE;
}
typedef void (*idem__store_done)(const idem__store_answer *answer, void *user);

/* One entry of READ or record of LIST; lent for the call. False: enough. */
typedef struct idem__store_item {
  uint64_t number;  /* the entry's, or the record's birth: for `after` */
  uint64_t version; /* LIST */
  const char *name; /* LIST */
  size_t name_len;
  const char *bytes;
  size_t len;
} idem__store_item;
typedef bool (*idem__store_each)(const idem__store_item *item, void *user);

/* What is pointed to is lent for the call that runs it. `done` runs exactly once, and no lock of the
 * store's is held then; further operations may be run from it. Operations that one thread runs on one
 * record, or on records that `lead` keeps together, happen in that order; their answers may come in any. Of
 * several others nothing is promised: who needs one before the other waits for its answer. */
typedef struct idem__store_op {
  idem__store_verb verb;
  idem__store_space space;
  const char *name;
  size_t name_len;
  const void *bytes;
  size_t len;
  const char *group; /* PUT that makes a record, LIST; NULL is "" */
  uint64_t expect;
  uint64_t ttl_ms; /* 0: until it is removed */
  uint64_t after;
  size_t limit;       /* 0: none but the store's own */
  size_t group_limit; /* the same */
  /* Records whose names begin with the same so many bytes are kept together; the same in every operation
   * on a record. 0: the whole name counts. */
  size_t lead;
  /* PUT: room was promised when the record was made, so it is kept past the store's own bound of bytes. Who says so bounds how many there
   * are at once, and how large. */
  bool owed;
  bool quiet; /* PUT: nobody waits for this change, and a store may spare itself telling of it */
  /* The caller's clock, for stores that have none. A space is always used with the same one. */
  uint64_t now_ms;
  idem__store_each each;
  idem__store_done done; /* NULL: nobody wants to know */
  void *user;
} idem__store_op;

/* ---------------------------------------------------------------- changes */

typedef enum idem__store_event {
  IDEM__STORE_WAS_PUT,
  IDEM__STORE_WAS_REMOVED,
  IDEM__STORE_WAS_EXPIRED,
  IDEM__STORE_WAS_APPENDED, /* version: the entry's number */
  IDEM__STORE_WAS_TOLD,
  /* To watchers of IDEM__STORE_KEYS, without a name, by a store elsewhere: it was lost and is there again. Of what changed
   * meanwhile nobody was told. */
  IDEM__STORE_WAS_AWAY
} idem__store_event;

typedef struct idem__store_change {
  idem__store_event event;
  idem__store_space space;
  const char *name;
  size_t name_len;
  uint64_t version;
} idem__store_change;

/* Called for every change that is not `quiet`, also one's own, on any thread, perhaps inside an operation: do not hold a
 * lock it takes while running one. It is to note what happened and wake somebody. A change may be
 * told twice or (by a store elsewhere whose line broke) not at all; versions tell. */
typedef void (*idem__store_watch_fn)(const idem__store_change *change, void *user);
typedef struct idem__store_watcher idem__store_watcher;

/* -------------------------------------------------------------- the store */

/* What a kind of store must do. */
typedef struct idem__store_kind {
  const char *name;
  bool immediate; /* every answer is there when run returns */
  /* One that answers later copies what it needs of the operation, calls `done` on whichever thread it
   * likes, once, and for what is still open when it is freed with CLOSED. */
  void (*run)(idem__store *store, const idem__store_op *op);
  idem_status (*watch)(idem__store *store, idem__store_space space, idem__store_watch_fn fn,
                       void *user, idem__store_watcher **out);
  void (*unwatch)(idem__store *store, idem__store_watcher *watcher);
  void (*free)(idem__store *store);
  /* For one that keeps records in several places, else NULL: in which. */
  unsigned (*part)(const idem__store *store, idem__store_space space, const char *name, size_t len);
  /* For one elsewhere, else NULL: whether it is connected, of several places with most of them. On any thread. */
  bool (*reaches)(idem__store *store);
} idem__store_kind;

/* The head of every store. Counted: the servers that share it in this process each hold it. */
struct idem__store {
  const idem__store_kind *kind;
  _Atomic unsigned refs;
};

/* `done` and `each` are called before it returns if the store is immediate, else later and on any
 * thread: for those who want no answer, and for queues. */
static inline void idem__store_run(idem__store *store, const idem__store_op *op) {
  store->kind->run(store, op);
}
/* NOMEM. Its function is not running and will not be called again once unwatch has returned; not from
 * inside that function. */
static inline idem_status idem__store_watch(idem__store *store, idem__store_space space,
                                            idem__store_watch_fn fn, void *user,
                                            idem__store_watcher **out) {
  return store->kind->watch(store, space, fn, user, out);
}
void idem__store_unwatch(idem__store *store, idem__store_watcher *watcher); /* takes NULL */
/* Records with the same number share the bounds of a space; 0 where all do. */
static inline unsigned idem__store_part(const idem__store *store, idem__store_space space,
                                        const char *name, size_t len) {
  return store->kind->part ? store->kind->part(store, space, name, len) : 0;
}
idem__store *idem__store_ref(idem__store *store);
void idem__store_unref(idem__store *store); /* takes NULL; the last one frees it */

/* For immediate stores: runs it and gives its answer. `value` (may be NULL) takes a copy of the bytes;
 * where that fails the status says so. SYS: the store did not answer at once. */
idem__store_answer idem__store_ask(idem__store *store, const idem__store_op *op, idem_buf *value);

/* ------------------------------------------------------------ the queue of a thread */

/* The operations that one thread waits for: bounded in number, bytes and time. Their answers, whoever
 * brings them, are heard on that thread alone, in idem__store_queue_run. An immediate store needs none
 * of it. */
typedef struct idem__store_queue idem__store_queue;
typedef struct idem__store_pending idem__store_pending; /* one of them */

/* Zero means the default. */
typedef struct idem__store_queue_opts {
  size_t max_count; /* that the store has not answered, also those nobody waits for; 16,384 */
  size_t max_bytes; /* of what was asked and answered; 64 MiB */
  uint64_t wait_ms; /* then it ends with TIMEOUT; 10,000 */
  /* On any thread, with a lock held: run is to be called on the queue's own, and the deadline looked at.
   * NULL: answers come on that thread, and run is called at once. */
  void (*wake)(void *user);
  void *user;
  const idem_alloc *alloc;
} idem__store_queue_opts;
idem_status idem__store_queue_new(const idem__store_queue_opts *opts, idem__store_queue **out);
/* What is open ends with CLOSED before it returns; nothing is heard of it later. Takes NULL. */
void idem__store_queue_free(idem__store_queue *queue);
void idem__store_queue_run(idem__store_queue *queue);
/* In a clock of its driver's: when expire wants to be called; UINT64_MAX: not. */
uint64_t idem__store_queue_deadline(const idem__store_queue *queue);
void idem__store_queue_expire(idem__store_queue *queue, uint64_t now_ms);
/* Those that somebody waits for, and those that the store has not answered. */
size_t idem__store_queue_waiting(const idem__store_queue *queue);
size_t idem__store_queue_open(idem__store_queue *queue);

/* Waits for a word that another thread gives instead of a store, with the same bounds: `done` is called on the queue's thread, with
 * that word, TIMEOUT or CLOSED. NULL: there is no room, and it is not called. */
idem__store_pending *idem__store_queue_await(idem__store_queue *queue, idem__store_done done,
                                             void *user);
/* Gives it, once, on any thread; also where nobody waits for it any more. */
void idem__store_queue_tell(idem__store_pending *pending, idem_status word);

void idem__store_submit_later(idem__store *store, idem__store_queue *queue,
                              const idem__store_op *op, idem__store_pending **handle);
/* Runs it; `done` is called on this thread: before it returns (an immediate store, or a full queue), or
 * later. `pending` (may be NULL) points to it meanwhile and is NULL again when `done` is called. Without a
 * queue, whose thread has ended, a store that answers later is not asked: CLOSED. */
static inline void idem__store_submit(idem__store *store, idem__store_queue *queue,
                                      const idem__store_op *op, idem__store_pending **pending) {
  if (store->kind->immediate)
    store->kind->run(store, op);
  else
    idem__store_submit_later(store, queue, op, pending);
}
/* It may happen, but nobody wants to know any more: `done` will not be called. Takes NULL. */
void idem__store_forget(idem__store_pending *pending);

/* ---------------------------------------------------------------- kinds */

/* In memory: for one process, immediate, gone with it. */
typedef struct idem__store_memory_opts {
  size_t max_bytes; /* of values, names and log entries together; 0: 512 MiB */
  uint64_t seed;    /* for its maps: random */
  _Atomic uint64_t
      *clock; /* counts versions and births; NULL: its own. Parts of one spread share it */
  const idem_alloc *alloc;
} idem__store_memory_opts;
idem_status idem__store_memory_new(const idem__store_memory_opts *opts, idem__store **out);
/* Records of a space, and bytes of all. */
size_t idem__store_memory_records(idem__store *store, idem__store_space space);
size_t idem__store_memory_bytes(idem__store *store);

/* Spread over several stores, its parts: each record lives in one of them. The limits of a space and a group are
 * divided among them, and births of several are compared as their clocks gave them. A part that does not
 * answer fails what is asked of it, and lists. */
#define IDEM__STORE_PARTS_MAX 64u
typedef struct idem__store_spread_opts {
  /* Taken over, unless it fails. They answer at once, or all on one thread. */
  idem__store *const *parts;
  unsigned count;
  /* Whether one of them is connected; on any thread. NULL: they always are. */
  bool (*ready)(void *user, unsigned part);
  void *user;
  const idem_alloc *alloc; /* used on any thread */
} idem__store_spread_opts;
/* INVAL: none, or more than PARTS_MAX. */
idem_status idem__store_spread_new(const idem__store_spread_opts *opts, idem__store **out);
/* The same for every process and version that shares one: records are where it says. */
unsigned idem__store_spread_place(unsigned count, idem__store_space space, const char *name,
                                  size_t len);
/* One of its parts, or a whole store itself as part 0; NULL: no such part. */
idem__store *idem__store_spread_at(idem__store *store, unsigned part);

#endif
