/* store.c - what every kind of store shares: being counted, and being asked for an answer at once.
 * See docs/internals/store.md. */
#include "store.h"

idem__store *idem__store_ref(idem__store *store) {
  atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
  return store;
}

void idem__store_unref(idem__store *store) {
  if (!store) return;
  if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) == 1)
    store->kind->free(store);
}

void idem__store_unwatch(idem__store *store, idem__store_watcher *watcher) {
  if (watcher) store->kind->unwatch(store, watcher);
}

/* Where idem__store_ask waits for the answer of an operation that somebody else described. */
typedef struct asked {
  const idem__store_op *op;
  idem__store_answer answer;
  idem_buf *value;
} asked;

static void take_answer(const idem__store_answer *answer, void *user) {
  asked *waiting = user;
  waiting->answer = *answer;
  if (waiting->value && answer->status == IDEM_OK) {
    idem_status status = idem_buf_put(waiting->value, answer->bytes, answer->len);
    if (status != IDEM_OK) waiting->answer.status = status;
  }
  waiting->answer.bytes = NULL; /* lent only until now */
  if (waiting->op->done) waiting->op->done(answer, waiting->op->user);
}

static bool take_item(const idem__store_item *item, void *user) {
  const asked *waiting = user;
  return waiting->op->each(item, waiting->op->user);
}

idem__store_answer idem__store_ask(idem__store *store, const idem__store_op *op, idem_buf *value) {
  asked waiting = {.op = op, .answer = {.status = IDEM_E_SYS}, .value = value};
  /* One that answers later would find `waiting` gone. */
  if (!store->kind->immediate) return waiting.answer;
  idem__store_op ours = *op;
  ours.done = take_answer;
  if (op->each) ours.each = take_item;
  ours.user = &waiting;
  idem__store_run(store, &ours);
  return waiting.answer;
}
