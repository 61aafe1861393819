/* later_store.c - see later_store.h. */
#include "support/later_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct asked {
  idem_list link;
  idem__store_op op; /* its texts follow */
  idem_status fail, lose;
  bool unsent;
} asked;

typedef struct later_store {
  idem__store head;
  idem__store *inner;
  later_store_opts opts;
  pthread_mutex_t lock;
  pthread_cond_t more;
  pthread_t thread;
  bool ending, held;
  idem_status fail, lose;
  bool unsent;
  uint64_t chance;
  idem_list waiting, never;
  size_t count;
} later_store;

static later_store *of(idem__store *store) { return IDEM_CONTAINER(store, later_store, head); }

static uint64_t next_chance(later_store *later) {
  later->chance ^= later->chance << 13;
  later->chance ^= later->chance >> 7;
  later->chance ^= later->chance << 17;
  return later->chance >> 11;
}

/* ------------------------------------------------------------------- asking */

static char *put_text(char *to, const void *text, size_t len) {
  if (len) memcpy(to, text, len);
  to[len] = '\0';
  return to + len + 1;
}

static asked *copy(const idem__store_op *op) {
  size_t group_len = op->group ? strlen(op->group) : 0;
  asked *copied = malloc(sizeof *copied + op->name_len + op->len + group_len + 3);
  if (!copied) abort();
  char *name = (char *)(copied + 1);
  char *bytes = put_text(name, op->name, op->name_len);
  char *group = put_text(bytes, op->bytes, op->len);
  put_text(group, op->group, group_len);
  copied->op = *op;
  copied->op.name = op->name ? name : NULL;
  copied->op.bytes = bytes;
  copied->op.group = op->group ? group : NULL;
  return copied;
}

static void run(idem__store *store, const idem__store_op *op) {
  later_store *later = of(store);
  asked *question = copy(op);
  pthread_mutex_lock(&later->lock);
  question->fail = later->fail;
  question->lose = later->lose;
  question->unsent = later->unsent;
  bool never = later->opts.never_in && next_chance(later) % later->opts.never_in == 0;
  idem_list_append(never ? &later->never : &later->waiting, &question->link);
  if (!never) later->count++;
  pthread_cond_signal(&later->more);
  pthread_mutex_unlock(&later->lock);
}

/* ---------------------------------------------------------------- answering */

/* Or one that is kept together with it. */
static bool same_record(const idem__store_op *a, const idem__store_op *b) {
  size_t len = a->lead && a->name_len ? a->lead : a->name_len;
  return a->space == b->space && a->name_len == b->name_len &&
         (!len || memcmp(a->name, b->name, len) == 0);
}

/* With the lock held: one of those that wait, or whoever is before it with the same record. */
static asked *take_any(later_store *later) {
  if (!later->count || later->held) return NULL;
  idem_list *at = later->waiting.next;
  for (uint64_t steps = next_chance(later) % later->count; steps; steps--) at = at->next;
  asked *chosen = IDEM_CONTAINER(at, asked, link);
  for (at = later->waiting.next; at != &chosen->link; at = at->next) {
    asked *earlier = IDEM_CONTAINER(at, asked, link);
    if (!same_record(&earlier->op, &chosen->op)) continue;
    chosen = earlier;
    break;
  }
  idem_list_remove(&chosen->link);
  later->count--;
  return chosen;
}

static void end(asked *question, idem_status status) {
  idem__store_answer failed = {.status = status,
                               .number = question->unsent ? IDEM__STORE_NOT_DONE
                                                          : IDEM__STORE_FULL_OUTSIDE};
  if (question->op.done) question->op.done(&failed, question->op.user);
  free(question);
}

static void answer(later_store *later, asked *question) {
  if (question->fail != IDEM_OK) {
    end(question, question->fail);
    return;
  }
  idem__store_op op = question->op;
  if (question->lose != IDEM_OK) op.done = NULL;
  idem__store_run(later->inner, &op);
  if (question->lose != IDEM_OK)
    end(question, question->lose);
  else
    free(question);
}

bool later_store_pump(idem__store *store) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  asked *question = take_any(later);
  pthread_mutex_unlock(&later->lock);
  if (question) answer(later, question);
  return question != NULL;
}

/* Waits a little, so that there is something to choose from. */
static void dawdle(later_store *later) {
  struct timespec pause = {.tv_nsec = (long)(next_chance(later) % 400) * 1000};
  pthread_mutex_unlock(&later->lock);
  nanosleep(&pause, NULL);
  pthread_mutex_lock(&later->lock);
}

static void *answer_all(void *arg) {
  later_store *later = arg;
  pthread_mutex_lock(&later->lock);
  while (!later->ending) {
    if (!later->count || later->held) pthread_cond_wait(&later->more, &later->lock);
    if (later->ending) break;
    dawdle(later);
    asked *question = take_any(later);
    if (!question) continue;
    pthread_mutex_unlock(&later->lock);
    answer(later, question);
    pthread_mutex_lock(&later->lock);
  }
  pthread_mutex_unlock(&later->lock);
  return NULL;
}

/* ------------------------------------------------------------------ the rest */

static idem_status watch(idem__store *store, idem__store_space space, idem__store_watch_fn fn,
                         void *user, idem__store_watcher **out) {
  return idem__store_watch(of(store)->inner, space, fn, user, out);
}

static void unwatch(idem__store *store, idem__store_watcher *watcher) {
  idem__store_unwatch(of(store)->inner, watcher);
}

static void end_list(idem_list *list) {
  while (!idem_list_empty(list)) {
    asked *question = IDEM_CONTAINER(list->next, asked, link);
    idem_list_remove(&question->link);
    end(question, IDEM_E_CLOSED);
  }
}

static void free_store(idem__store *store) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  later->ending = true;
  pthread_cond_signal(&later->more);
  pthread_mutex_unlock(&later->lock);
  if (later->opts.threaded) pthread_join(later->thread, NULL);
  end_list(&later->waiting);
  end_list(&later->never);
  idem__store_unref(later->inner);
  pthread_cond_destroy(&later->more);
  pthread_mutex_destroy(&later->lock);
  free(later);
}

static const idem__store_kind kind = {
    .name = "later", .run = run, .watch = watch, .unwatch = unwatch, .free = free_store};

idem__store *later_store_new(idem__store *inner, const later_store_opts *opts) {
  later_store *later = calloc(1, sizeof *later);
  if (!later) return NULL;
  later->head.kind = &kind;
  atomic_init(&later->head.refs, 1);
  later->inner = inner;
  later->opts = *opts;
  later->chance = opts->seed * 2 + 1;
  idem_list_init(&later->waiting);
  idem_list_init(&later->never);
  pthread_mutex_init(&later->lock, NULL);
  pthread_cond_init(&later->more, NULL);
  if (opts->threaded && pthread_create(&later->thread, NULL, answer_all, later) != 0) abort();
  return &later->head;
}

size_t later_store_waiting(idem__store *store) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  size_t count = later->count;
  pthread_mutex_unlock(&later->lock);
  return count;
}

void later_store_hold(idem__store *store, bool hold) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  later->held = hold;
  pthread_cond_signal(&later->more);
  pthread_mutex_unlock(&later->lock);
}

void later_store_fail(idem__store *store, idem_status status) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  later->fail = status;
  later->unsent = false;
  pthread_mutex_unlock(&later->lock);
}

void later_store_away(idem__store *store, idem_status status) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  later->fail = status;
  later->unsent = status != IDEM_OK;
  pthread_mutex_unlock(&later->lock);
}

void later_store_lose(idem__store *store, idem_status status) {
  later_store *later = of(store);
  pthread_mutex_lock(&later->lock);
  later->lose = status;
  pthread_mutex_unlock(&later->lock);
}

idem__store *later_store_inner(idem__store *store) { return of(store)->inner; }
