/* memory.h - the store in memory: what its files share. See docs/internals/store.md. */
#ifndef IDEM_STORE_MEMORY_H
#define IDEM_STORE_MEMORY_H

#include "store.h"

/* Bytes that outlive the lock they were found under. */
typedef struct idem__store_value {
  _Atomic unsigned refs;
  size_t len;
  char bytes[];
} idem__store_value;

typedef struct idem__store_entry {
  uint64_t number;
  idem__store_value *value;
} idem__store_entry;

/* Entries by rising number, oldest first: a ring, so that any of them is found in a few steps. */
typedef struct idem__store_log {
  idem__store_entry *ring;
  size_t first, count;
  size_t cap; /* a power of two, or 0 */
  size_t bytes;
} idem__store_log;

typedef struct idem__store_record {
  idem_list link;      /* in its space, by birth */
  idem__timer timer;   /* in the space's heap; may be due earlier than expires_ms: looked at then */
  uint64_t expires_ms; /* 0: never */
  uint64_t birth;
  uint64_t version;
  uint64_t counter;
  uint64_t last_entry;
  idem__store_value *value;
  idem__store_log log;
  size_t charged; /* of the store's bytes, the log apart */
  size_t name_len;
  size_t group_len;
  char text[]; /* name, then group */
} idem__store_record;

struct idem__store_watcher {
  idem_list link;
  idem__store_watch_fn fn;
  void *user;
  unsigned running; /* calls of fn under way */
  bool leaving;
};

/* How many records a group has. */
typedef struct idem__store_group {
  size_t count;
  size_t len;
  char text[];
} idem__store_group;

typedef struct idem__store_room {
  idem_map by_name;
  idem_map groups; /* those that have a name and a record */
  idem_list records;
  idem__heap expiring;
  idem_list watchers;
} idem__store_room;

typedef struct idem__store_memory {
  idem__store head;
  idem_alloc alloc;
  idem__lock lock; /* everything below */
  _Atomic uint64_t *clock,
      own_clock; /* counts changes: versions and births, never twice the same */
  size_t bytes, max_bytes;
  idem__store_room rooms[IDEM__STORE_SPACES];
} idem__store_memory;

void idem__store_value_unref(const idem_alloc *alloc, idem__store_value *value); /* takes NULL */
idem__store_value *idem__store_value_new(const idem_alloc *alloc, const void *bytes, size_t len);
/* With the lock held. */
static inline idem__store_value *idem__store_value_ref(idem__store_value *value) {
  atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
  return value;
}
idem__store_record *idem__store_record_find(idem__store_memory *memory, const idem__store_op *op);
/* Makes room for so many bytes; LIMIT. */
idem_status idem__store_charge(idem__store_memory *memory, idem__store_space space, size_t bytes);

/* memory_log.c: the logs of records, and lists of them; without the lock. */
void idem__store_append(idem__store_memory *memory, const idem__store_op *op,
                        idem__store_answer *answer);
void idem__store_read(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer);
void idem__store_list(idem__store_memory *memory, const idem__store_op *op,
                      idem__store_answer *answer);
/* Without the lock: the record is nobody else's any more, and its bytes are no longer counted. */
void idem__store_log_free(const idem__store_memory *memory, idem__store_log *log);

/* memory_watch.c: without the lock. */
void idem__store_tell(idem__store_memory *memory, const idem__store_change *change);
idem_status idem__store_memory_watch(idem__store *store, idem__store_space space,
                                     idem__store_watch_fn fn, void *user,
                                     idem__store_watcher **out);
void idem__store_memory_unwatch(idem__store *store, idem__store_watcher *watcher);

#endif
