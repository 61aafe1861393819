/* queue.c - the operations that one thread waits for. A store answers on whichever thread it likes; the
 * answer is copied and carried to the thread that asked. What takes too long, what is forgotten and
 * what is open when the queue goes ends here; its node stays until the store has done with it.
 * See docs/internals/store.md. */
#include "store.h"

#include <string.h>

#define DEFAULT_COUNT 16384u
#define DEFAULT_BYTES ((size_t)64 << 20)
#define DEFAULT_WAIT_MS 10000u
#define TICKS 8u /* looks at the clock in the time that one may wait */

typedef enum state { OPEN, ANSWERED, ORPHANED } state;

struct idem__store_pending {
  idem_list link;           /* in queue->waiting, by age */
  idem_list answered_link;  /* in queue->answered */
  idem__store_queue *queue; /* counted */
  idem__store_pending **handle;
  idem__store_each each;
  idem__store_done done;
  void *user;
  uint64_t end_ms; /* 0: the clock was not looked at since it came */
  size_t charged;
  state state; /* guarded by the queue's lock */
  /* The store's until it has answered. */
  idem__store_answer answer;
  idem_buf bytes;
  idem_buf items; /* what `each` is to be shown: heads and texts */
};

struct idem__store_queue {
  idem_alloc alloc;
  idem__store_queue_opts opts;
  _Atomic unsigned refs; /* the owner's and one for each pending */
  bool direct;       /* one thread has the store and the queue: what is answered is told at once */
  idem_list waiting; /* of the owner's thread alone */
  size_t waiting_count;
  uint64_t ticked_ms;
  bool unticked;   /* somebody waits since the clock was looked at last, and nobody did then */
  idem__lock lock; /* the rest */
  idem_list answered;
  size_t count, bytes;
};

typedef struct item_head {
  uint64_t number, version;
  size_t name_len, len;
} item_head;

/* ----------------------------------------------------------------- lifetime */

idem_status idem__store_queue_new(const idem__store_queue_opts *opts, idem__store_queue **out) {
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem__store_queue *queue = idem__calloc(&alloc, sizeof *queue);
  *out = queue;
  if (!queue) return IDEM_E_NOMEM;
  queue->alloc = alloc;
  queue->opts = *opts;
  queue->direct = !opts->wake;
  if (!queue->opts.max_count) queue->opts.max_count = DEFAULT_COUNT;
  if (!queue->opts.max_bytes) queue->opts.max_bytes = DEFAULT_BYTES;
  if (!queue->opts.wait_ms) queue->opts.wait_ms = DEFAULT_WAIT_MS;
  atomic_init(&queue->refs, 1);
  idem_list_init(&queue->waiting);
  idem__lock_init(&queue->lock);
  idem_list_init(&queue->answered);
  return IDEM_OK;
}

static void unref(idem__store_queue *queue) {
  if (atomic_fetch_sub_explicit(&queue->refs, 1, memory_order_acq_rel) != 1) return;
  idem_alloc alloc = queue->alloc;
  idem__free(&alloc, queue);
}

/* With the lock held. */
static bool charge(idem__store_pending *pending, size_t bytes) {
  idem__store_queue *queue = pending->queue;
  if (bytes > queue->opts.max_bytes - queue->bytes) return false;
  queue->bytes += bytes;
  pending->charged += bytes;
  return true;
}

/* Both the store and whoever waited have done with it. */
static void free_pending(idem__store_pending *pending) {
  idem__store_queue *queue = pending->queue;
  idem__lock_take(&queue->lock);
  queue->count--;
  queue->bytes -= pending->charged;
  idem__lock_give(&queue->lock);
  idem_buf_deinit(&pending->bytes);
  idem_buf_deinit(&pending->items);
  idem__free(&queue->alloc, pending);
  unref(queue);
}

/* ------------------------------------------------------- on the store's thread */

/* What is kept until the thread that asked shows it; false: there is no room for more. */
static bool keep_item(const idem__store_item *item, void *user) {
  idem__store_pending *pending = user;
  item_head head = {item->number, item->version, item->name_len, item->len};
  size_t whole = pending->items.len;
  idem__lock_take(&pending->queue->lock);
  bool room = charge(pending, sizeof head + item->name_len + item->len);
  idem__lock_give(&pending->queue->lock);
  idem_status status = room ? idem_buf_put(&pending->items, &head, sizeof head) : IDEM_E_LIMIT;
  if (status == IDEM_OK) status = idem_buf_put(&pending->items, item->name, item->name_len);
  if (status == IDEM_OK) status = idem_buf_put(&pending->items, item->bytes, item->len);
  if (status == IDEM_OK) return true;
  pending->items.len = whole;
  pending->answer.status = status;
  return false;
}

static void keep_answer(idem__store_pending *pending, const idem__store_answer *answer) {
  idem_status kept = pending->answer.status; /* of the items */
  pending->answer = *answer;
  if (kept != IDEM_OK) pending->answer.status = kept;
  pending->answer.bytes = NULL;
  if (!answer->len) return;
  idem__lock_take(&pending->queue->lock);
  bool room = charge(pending, answer->len);
  idem__lock_give(&pending->queue->lock);
  idem_status status =
      room ? idem_buf_put(&pending->bytes, answer->bytes, answer->len) : IDEM_E_LIMIT;
  if (status != IDEM_OK) {
    pending->answer.status = status;
    pending->answer.len = 0;
  }
}

/* Carries it to the thread that asked, if that still waits. */
static void on_done(const idem__store_answer *answer, void *user) {
  idem__store_pending *pending = user;
  idem__store_queue *queue = pending->queue;
  bool direct = false;
  keep_answer(pending, answer);
  idem__lock_take(&queue->lock);
  bool orphaned = pending->state == ORPHANED;
  if (!orphaned) {
    bool first = idem_list_empty(&queue->answered); /* who is awake takes all that is there */
    pending->state = ANSWERED;
    idem_list_append(&queue->answered, &pending->answered_link);
    direct = queue->direct;
    if (first && queue->opts.wake) queue->opts.wake(queue->opts.user);
  }
  idem__lock_give(&queue->lock);
  if (orphaned) free_pending(pending);
  if (direct) idem__store_queue_run(queue);
}

/* -------------------------------------------------------- on the thread that asked */

static bool within_limits(idem__store_queue *queue, idem__store_pending *pending, size_t bytes) {
  idem__lock_take(&queue->lock);
  bool room = queue->count < queue->opts.max_count && charge(pending, bytes);
  if (room) queue->count++;
  idem__lock_give(&queue->lock);
  return room;
}

static idem_status new_pending(idem__store_queue *queue, const idem__store_op *op,
                               idem__store_pending **out) {
  idem__store_pending *pending = idem__calloc(&queue->alloc, sizeof *pending);
  *out = pending;
  if (!pending) return IDEM_E_NOMEM;
  pending->queue = queue;
  pending->each = op->each;
  pending->done = op->done;
  pending->user = op->user;
  idem_buf_init(&pending->bytes, &queue->alloc, queue->opts.max_bytes);
  idem_buf_init(&pending->items, &queue->alloc, queue->opts.max_bytes);
  if (within_limits(queue, pending, sizeof *pending + op->name_len + op->len)) return IDEM_OK;
  idem__free(&queue->alloc, pending);
  return IDEM_E_LIMIT;
}

static void begin_waiting(idem__store_queue *queue, idem__store_pending *pending) {
  bool first = idem_list_empty(&queue->waiting);
  atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
  idem_list_append(&queue->waiting, &pending->link);
  queue->waiting_count++;
  if (!first || !queue->opts.wake) return;
  queue->unticked = true;
  idem__lock_take(&queue->lock);
  queue->opts.wake(queue->opts.user);
  idem__lock_give(&queue->lock);
}

void idem__store_submit_later(idem__store *store, idem__store_queue *queue,
                              const idem__store_op *op, idem__store_pending **handle) {
  idem__store_pending *pending = NULL;
  idem_status status = queue ? new_pending(queue, op, &pending) : IDEM_E_CLOSED;
  if (status != IDEM_OK) {
    idem__store_answer answer = {.status = status, .number = IDEM__STORE_FULL_ELSE};
    if (op->done) op->done(&answer, op->user);
    return;
  }
  begin_waiting(queue, pending);
  pending->handle = handle;
  if (handle) *handle = pending;
  idem__store_op ours = *op;
  ours.each = op->each ? keep_item : NULL;
  ours.done = on_done;
  ours.user = pending;
  idem__store_run(store, &ours);
}

idem__store_pending *idem__store_queue_await(idem__store_queue *queue, idem__store_done done,
                                             void *user) {
  idem__store_pending *pending;
  if (new_pending(queue, &(idem__store_op){.done = done, .user = user}, &pending) != IDEM_OK)
    return NULL;
  begin_waiting(queue, pending);
  return pending;
}

void idem__store_queue_tell(idem__store_pending *pending, idem_status word) {
  on_done(&(idem__store_answer){.status = word}, pending);
}

static void stop_waiting(idem__store_pending *pending) {
  idem_list_remove(&pending->link);
  pending->queue->waiting_count--;
  if (pending->handle) *pending->handle = NULL;
}

/* True: the store has done with it. */
static bool take_from_store(idem__store_pending *pending) {
  idem__lock_take(&pending->queue->lock);
  bool answered = pending->state == ANSWERED;
  if (answered)
    idem_list_remove(&pending->answered_link);
  else
    pending->state = ORPHANED;
  idem__lock_give(&pending->queue->lock);
  return answered;
}

void idem__store_forget(idem__store_pending *pending) {
  if (!pending) return;
  stop_waiting(pending);
  if (take_from_store(pending)) free_pending(pending);
}

/* Nobody waits for the store any longer. */
static void give_up(idem__store_pending *pending, idem_status why) {
  idem__store_done done = pending->done;
  void *user = pending->user;
  idem__store_forget(pending);
  if (done) done(&(idem__store_answer){.status = why}, user);
}

static void show_items(const idem__store_pending *pending) {
  const char *at = pending->items.data, *end = at ? at + pending->items.len : at;
  for (bool more = pending->each != NULL; more && at < end;) {
    item_head head;
    memcpy(&head, at, sizeof head);
    at += sizeof head;
    idem__store_item item = {.number = head.number,
                             .version = head.version,
                             .name = at,
                             .name_len = head.name_len,
                             .bytes = at + head.name_len,
                             .len = head.len};
    at += head.name_len + head.len;
    more = pending->each(&item, pending->user);
  }
}

/* All that is there, so that a store which answers many at once is not met at the lock for each. False: nothing. */
static bool take_answered(idem__store_queue *queue, idem_list *taken) {
  idem__lock_take(&queue->lock);
  bool some = !idem_list_empty(&queue->answered);
  if (some) {
    idem_list_append(&queue->answered, taken);
    idem_list_remove(&queue->answered);
  }
  idem__lock_give(&queue->lock);
  return some;
}

static void show(idem__store_pending *pending) {
  stop_waiting(pending);
  pending->answer.bytes = pending->bytes.data;
  show_items(pending);
  if (pending->done) pending->done(&pending->answer, pending->user);
  free_pending(pending);
}

/* One that is forgotten meanwhile leaves the list it is in; both are this thread's. */
void idem__store_queue_run(idem__store_queue *queue) {
  idem_list taken;
  idem_list_init(&taken);
  atomic_fetch_add_explicit(&queue->refs, 1, memory_order_relaxed);
  while (take_answered(queue, &taken)) {
    while (!idem_list_empty(&taken)) {
      idem__store_pending *next = IDEM_CONTAINER(taken.next, idem__store_pending, answered_link);
      idem_list_remove(&next->answered_link);
      show(next);
    }
  }
  unref(queue);
}

/* --------------------------------------------------------------------- time */

static uint64_t tick_ms(const idem__store_queue *queue) { return queue->opts.wait_ms / TICKS + 1; }

uint64_t idem__store_queue_deadline(const idem__store_queue *queue) {
  if (idem_list_empty(&queue->waiting)) return UINT64_MAX;
  return queue->unticked ? 0 : queue->ticked_ms + tick_ms(queue);
}

/* Ages are in order: those without an end yet came last. */
void idem__store_queue_expire(idem__store_queue *queue, uint64_t now_ms) {
  queue->ticked_ms = now_ms;
  queue->unticked = false;
  while (!idem_list_empty(&queue->waiting)) {
    idem__store_pending *oldest = IDEM_CONTAINER(queue->waiting.next, idem__store_pending, link);
    if (!oldest->end_ms || oldest->end_ms > now_ms) break;
    give_up(oldest, IDEM_E_TIMEOUT);
  }
  for (idem_list *at = queue->waiting.prev; at != &queue->waiting; at = at->prev) {
    idem__store_pending *pending = IDEM_CONTAINER(at, idem__store_pending, link);
    if (pending->end_ms) break;
    pending->end_ms = now_ms + queue->opts.wait_ms;
  }
}

size_t idem__store_queue_waiting(const idem__store_queue *queue) { return queue->waiting_count; }

size_t idem__store_queue_open(idem__store_queue *queue) {
  idem__lock_take(&queue->lock);
  size_t count = queue->count;
  idem__lock_give(&queue->lock);
  return count;
}

void idem__store_queue_free(idem__store_queue *queue) {
  if (!queue) return;
  idem__lock_take(&queue->lock);
  queue->opts.wake = NULL; /* whoever it would wake goes, too */
  queue->opts.max_count = 0;
  idem__lock_give(&queue->lock);
  while (!idem_list_empty(&queue->waiting)) {
    give_up(IDEM_CONTAINER(queue->waiting.next, idem__store_pending, link), IDEM_E_CLOSED);
  }
  unref(queue);
}
