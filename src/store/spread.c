/* spread.c - a store made of several, its *parts*: a record lives in the one that a hash of its space and name says, so that
 * they hold and do more than one of them could. What a store promises of one record its part keeps; what it promises of many
 * (lists, limits) is put together here. See docs/internals/store.md and decision 16. */
#include "store.h"

#include <string.h>

#define GATHERED_BYTES ((size_t)64 << 20) /* of a list, until all parts have shown theirs */

typedef struct spread {
  idem__store head;
  idem__store_kind kind; /* as immediate as its parts are */
  idem_alloc alloc;
  bool (*ready)(void *user, unsigned part);
  void *user;
  _Atomic bool ending;
  unsigned count;
  idem__store *parts[];
} spread;

struct idem__store_watcher {
  unsigned count;
  idem__store_watcher *inner[]; /* each of a part's own kind */
};

static spread *of(const idem__store *store) {
  return IDEM_CONTAINER((idem__store *)(uintptr_t)store, spread, head);
}

/* ----------------------------------------------------------------- routing */

/* FNV-1a, and its high bits folded in. Every process must come to the same, today and with later versions: records are where it
 * said. */
unsigned idem__store_spread_place(unsigned count, idem__store_space space, const char *name,
                                  size_t len) {
  uint64_t hash = UINT64_C(14695981039346656037);
  hash = (hash ^ (uint64_t)space) * UINT64_C(1099511628211);
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
  hash ^= hash >> 32;
  hash *= UINT64_C(0x9e3779b97f4a7c15);
  return (unsigned)((hash >> 32) % count);
}

static unsigned part_of(const idem__store *store, idem__store_space space, const char *name,
                        size_t len) {
  return idem__store_spread_place(of(store)->count, space, name, len);
}

static idem__store *owner_of(const spread *self, const idem__store_op *op) {
  size_t len = op->name ? op->name_len : 0;
  if (op->lead && op->lead < len) len = op->lead;
  if (len > IDEM__STORE_NAME_MAX) len = 0; /* it is refused wherever it goes */
  return self->parts[part_of(&self->head, op->space, op->name, len)];
}

/* Of what all parts may have together; none has nothing. */
static size_t share(const spread *self, size_t limit) {
  return limit && limit < self->count ? 1 : limit / self->count;
}

static void run_one(const spread *self, const idem__store_op *op) {
  idem__store_op own = *op;
  if (op->verb == IDEM__STORE_PUT) {
    own.limit = share(self, op->limit);
    own.group_limit = share(self, op->group_limit);
  }
  idem__store_run(owner_of(self, op), &own);
}

/* ------------------------------------------------------------------- lists */

/* A record that a part has shown. */
typedef struct found {
  idem_list link; /* in gathering->found, by number */
  idem__store_item item;
  char texts[]; /* name and bytes */
} found;

typedef struct gathering gathering;
typedef struct source {
  gathering *all;
  unsigned part;
  idem_list *last; /* what it showed last: the next one comes behind it */
} source;

/* A list on its way: ended by the part that answers last. */
struct gathering {
  idem_alloc alloc;
  size_t limit;
  idem__store_each each;
  idem__store_done done;
  void *user;
  idem__lock lock; /* the rest */
  unsigned open;   /* parts that have not answered */
  idem_status status;
  idem_list found;
  size_t count, bytes;
  unsigned parts;
  source from[];
};

/* Births of several parts, told apart and in one order: whoever goes on behind one misses none of another part's. */
static uint64_t number_in_all(const source *from, uint64_t number) {
  return number * from->all->parts + from->part;
}

static uint64_t after_in_part(uint64_t after, unsigned part, unsigned parts) {
  return after < part ? 0 : (after - part) / parts;
}

static found *new_found(gathering *all, const idem__store_item *item) {
  size_t size = sizeof(found) + item->name_len + item->len;
  bool room = size <= GATHERED_BYTES - all->bytes;
  found *one = room ? idem__malloc(&all->alloc, size) : NULL;
  if (!one) {
    all->status = room ? IDEM_E_NOMEM : IDEM_E_LIMIT;
    return NULL;
  }
  one->item = *item;
  one->item.name = one->texts;
  one->item.bytes = one->texts + item->name_len;
  if (item->name_len) memcpy(one->texts, item->name, item->name_len);
  if (item->len) memcpy(one->texts + item->name_len, item->bytes, item->len);
  all->bytes += size;
  all->count++;
  return one;
}

static void drop_found(gathering *all, idem_list *link) {
  found *one = IDEM_CONTAINER(link, found, link);
  idem_list_remove(link);
  all->bytes -= sizeof(found) + one->item.name_len + one->item.len;
  all->count--;
  idem__free(&all->alloc, one);
}

static uint64_t number_at(const idem_list *link) {
  return IDEM_CONTAINER((idem_list *)(uintptr_t)link, found, link)->item.number;
}

/* With the lock held. False: no more of this part is wanted. No more than `limit` are kept, so `last` is there as long as its
 * part has anything to add. */
static bool keep(source *from, const idem__store_item *item) {
  gathering *all = from->all;
  uint64_t number = number_in_all(from, item->number);
  if (all->status != IDEM_OK) return false;
  if (all->limit && all->count == all->limit && number > number_at(all->found.prev)) return false;
  found *one = new_found(all, item);
  if (!one) return false;
  one->item.number = number;
  idem_list *at = from->last->next;
  while (at != &all->found && number_at(at) < number) at = at->next;
  idem_list_append(at, &one->link); /* before it */
  from->last = &one->link;
  if (all->limit && all->count > all->limit) drop_found(all, all->found.prev);
  return true;
}

static bool on_item(const idem__store_item *item, void *user) {
  source *from = user;
  idem__lock_take(&from->all->lock);
  bool more = keep(from, item);
  idem__lock_give(&from->all->lock);
  return more;
}

static void finish(gathering *all) {
  idem_alloc alloc = all->alloc;
  bool more = all->status == IDEM_OK;
  for (const idem_list *at = all->found.next; more && at != &all->found; at = at->next)
    more = all->each(&IDEM_CONTAINER((idem_list *)(uintptr_t)at, found, link)->item, all->user);
  while (!idem_list_empty(&all->found)) drop_found(all, all->found.next);
  if (all->done) all->done(&(idem__store_answer){.status = all->status}, all->user);
  idem__free(&alloc, all);
}

/* One that did not answer may have what was to be shown: then nothing is. */
static void on_listed(const idem__store_answer *answer, void *user) {
  gathering *all = ((source *)user)->all;
  idem__lock_take(&all->lock);
  if (all->status == IDEM_OK) all->status = answer->status;
  bool last = --all->open == 0;
  idem__lock_give(&all->lock);
  if (last) finish(all);
}

static gathering *new_gathering(const spread *self, const idem__store_op *op) {
  gathering *all =
      idem__calloc(&self->alloc, sizeof *all + (size_t)self->count * sizeof all->from[0]);
  if (!all) return NULL;
  all->alloc = self->alloc;
  all->limit = op->limit;
  all->each = op->each;
  all->done = op->done;
  all->user = op->user;
  all->open = all->parts = self->count;
  idem__lock_init(&all->lock);
  idem_list_init(&all->found);
  for (unsigned i = 0; i < self->count; i++) all->from[i] = (source){all, i, &all->found};
  return all;
}

static void run_all(const spread *self, const idem__store_op *op) {
  gathering *all = new_gathering(self, op);
  if (!all) {
    if (op->done) op->done(&(idem__store_answer){.status = IDEM_E_NOMEM}, op->user);
    return;
  }
  unsigned count = self->count; /* whoever answers last may end more than the list */
  for (unsigned i = 0; i < count; i++) {
    idem__store_op own = *op;
    own.after = after_in_part(op->after, i, count);
    own.each = on_item;
    own.done = on_listed;
    own.user = &all->from[i];
    idem__store_run(self->parts[i], &own);
  }
}

static void run(idem__store *store, const idem__store_op *op) {
  const spread *self = of(store);
  if (atomic_load(&self->ending)) {
    if (op->done) op->done(&(idem__store_answer){.status = IDEM_E_CLOSED}, op->user);
  } else if (op->verb == IDEM__STORE_LIST && op->each) {
    run_all(self, op);
  } else {
    run_one(self, op);
  }
}

/* ---------------------------------------------------------------- watching */

static void unwatch(idem__store *store, idem__store_watcher *watcher) {
  spread *self = of(store);
  for (unsigned i = 0; i < watcher->count; i++)
    idem__store_unwatch(self->parts[i], watcher->inner[i]);
  idem__free(&self->alloc, watcher);
}

static idem_status watch(idem__store *store, idem__store_space space, idem__store_watch_fn fn,
                         void *user, idem__store_watcher **out) {
  spread *self = of(store);
  idem_status status = IDEM_OK;
  idem__store_watcher *watcher =
      idem__calloc(&self->alloc, sizeof *watcher + self->count * sizeof watcher->inner[0]);
  *out = watcher;
  if (!watcher) return IDEM_E_NOMEM;
  for (unsigned i = 0; status == IDEM_OK && i < self->count; i++) {
    status = idem__store_watch(self->parts[i], space, fn, user, &watcher->inner[i]);
    if (status == IDEM_OK) watcher->count++;
  }
  if (status == IDEM_OK) return IDEM_OK;
  unwatch(store, watcher);
  *out = NULL;
  return status;
}

/* ---------------------------------------------------------------- lifetime */

/* As a cluster's own rule is: with most of them most requests can be served. */
static bool reaches(idem__store *store) {
  const spread *self = of(store);
  unsigned ready = 0;
  for (unsigned i = 0; i < self->count; i++) ready += !self->ready || self->ready(self->user, i);
  return ready > self->count / 2;
}

static void free_spread(idem__store *store) {
  spread *self = of(store);
  idem_alloc alloc = self->alloc;
  atomic_store(&self->ending, true);
  for (unsigned i = 0; i < self->count; i++) idem__store_unref(self->parts[i]);
  idem__free(&alloc, self);
}

static const idem__store_kind spread_kind = {.name = "spread",
                                             .run = run,
                                             .watch = watch,
                                             .unwatch = unwatch,
                                             .free = free_spread,
                                             .part = part_of,
                                             .reaches = reaches};

idem_status idem__store_spread_new(const idem__store_spread_opts *opts, idem__store **out) {
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  *out = NULL;
  if (!opts->count || opts->count > IDEM__STORE_PARTS_MAX) return IDEM_E_INVAL;
  spread *self = idem__calloc(&alloc, sizeof *self + opts->count * sizeof self->parts[0]);
  if (!self) return IDEM_E_NOMEM;
  self->kind = spread_kind;
  self->kind.immediate = true;
  self->head.kind = &self->kind;
  atomic_init(&self->head.refs, 1);
  self->alloc = alloc;
  self->ready = opts->ready;
  self->user = opts->user;
  self->count = opts->count;
  for (unsigned i = 0; i < opts->count; i++) {
    self->parts[i] = opts->parts[i];
    if (!opts->parts[i]->kind->immediate) self->kind.immediate = false;
  }
  *out = &self->head;
  return IDEM_OK;
}

idem__store *idem__store_spread_at(idem__store *store, unsigned part) {
  if (store->kind->run != run) return part ? NULL : store; /* it is none */
  const spread *self = of(store);
  return part < self->count ? self->parts[part] : NULL;
}
