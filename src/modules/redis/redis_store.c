/* redis_store.c - a store in Redis: operations wait in a bounded queue for the carrier, which sends as many as there are in
 * one go and hears their answers in order. So what many ask at a time shares round trips. */
#include "redis_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------- clock */

static uint64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void pass(idem__store *head, uint64_t ms) {
  redis_store *store = redis_of(head);
  uint64_t stopped = atomic_load(&store->stopped_ms);
  atomic_store(&store->stopped_ms, (stopped ? stopped : wall_ms()) + ms);
}

/* ------------------------------------------------------------------- queue */

static bool is_valid(const idem__store_op *op) {
  if ((unsigned)op->space >= IDEM__STORE_SPACES || (unsigned)op->verb > IDEM__STORE_TELL)
    return false;
  if (op->group && strlen(op->group) > IDEM__STORE_GROUP_MAX) return false;
  if (op->verb == IDEM__STORE_COUNT && op->after > INT64_MAX) return false;
  if (op->verb == IDEM__STORE_LIST) return op->each != NULL;
  return op->name && op->name_len && op->name_len <= IDEM__STORE_NAME_MAX;
}

static void refuse(redis_store *store, const idem__store_op *op, idem_status status) {
  atomic_fetch_add(&store->refused, 1);
  idem__store_answer answer = {.status = status,
                               .number = status == IDEM_E_SYS ? IDEM__STORE_NOT_DONE
                                                              : IDEM__STORE_FULL_ELSE};
  if (op->done) op->done(&answer, op->user);
}

/* LIMIT: there is no room. SYS: Redis is away. */
static idem_status enqueue(redis_store *store, redis_job *job) {
  idem_status status = IDEM_OK;
  pthread_mutex_lock(&store->lock);
  if (store->ending || store->count >= store->queued_count || store->bytes > store->queued_bytes ||
      job->size > store->queued_bytes - store->bytes)
    status = IDEM_E_LIMIT;
  else if (store->refusing)
    status = IDEM_E_SYS;
  if (status == IDEM_OK) {
    bool first = idem_list_empty(&store->queue);
    idem_list_append(&store->queue, &job->link);
    store->count++;
    store->bytes += job->size;
    if (first) store->wake(store->carrier);
  }
  pthread_mutex_unlock(&store->lock);
  return status;
}

static void run(idem__store *head, const idem__store_op *op) {
  redis_store *store = redis_of(head);
  atomic_fetch_add(&store->asked, 1);
  redis_job *job = is_valid(op) ? redis_job_new(op) : NULL;
  idem_status status = is_valid(op) ? IDEM_E_NOMEM : IDEM_E_INVAL;
  if (job) status = enqueue(store, job);
  if (status == IDEM_OK) return;
  free(job);
  refuse(store, op, status);
}

redis_job *redis_take_job(redis_store *store) {
  redis_job *job = NULL;
  pthread_mutex_lock(&store->lock);
  if (!idem_list_empty(&store->queue)) {
    job = IDEM_CONTAINER(store->queue.next, redis_job, link);
    idem_list_remove(&job->link);
  }
  pthread_mutex_unlock(&store->lock);
  return job;
}

void redis_put_back(redis_store *store, redis_job *job) {
  pthread_mutex_lock(&store->lock);
  idem_list_append(store->queue.next, &job->link); /* before the first */
  pthread_mutex_unlock(&store->lock);
}

void redis_take_requests(redis_store *store) {
  pthread_mutex_lock(&store->lock);
  store->refusing = false;
  pthread_mutex_unlock(&store->lock);
}

void redis_refuse_waiting(redis_store *store, idem_status status, bool refusing) {
  pthread_mutex_lock(&store->lock);
  store->refusing = refusing;
  pthread_mutex_unlock(&store->lock);
  for (redis_job *job; (job = redis_take_job(store));) {
    atomic_fetch_add(&store->refused, 1);
    redis_job_end(store, job,
                  &(idem__store_answer){.status = status, .number = IDEM__STORE_NOT_DONE});
  }
}

/* ------------------------------------------------------------------ saying */

/* What Redis says is shown as far as it can be printed. */
void redis_set_fault(redis_store *store, const char *what, const char *text, size_t len) {
  int at = snprintf(store->fault, sizeof store->fault, "%s%s", what, text ? ": " : "");
  for (size_t i = 0; text && i < len && text[i] && at < (int)sizeof store->fault - 1; i++)
    store->fault[at++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  store->fault[at] = 0;
}

static const char *fault(idem__store *head) { return redis_of(head)->fault; }

static void count(idem__store *head, idem__redis_counts *counts) {
  redis_store *store = redis_of(head);
  *counts = (idem__redis_counts){.asked = atomic_load(&store->asked),
                                 .answered = atomic_load(&store->answered),
                                 .unknown = atomic_load(&store->unknown),
                                 .refused = atomic_load(&store->refused),
                                 .parts = atomic_load(&store->there),
                                 .ready = atomic_load(&store->is_ready)};
  pthread_mutex_lock(&store->lock);
  counts->waiting = store->count;
  pthread_mutex_unlock(&store->lock);
}

/* ---------------------------------------------------------------- lifetime */

static void wipe_and_free(char *secret) {
  if (secret) explicit_bzero(secret, strlen(secret));
  free(secret);
}

static idem_status change_password(idem__store *head, const char *password) {
  redis_store *store = redis_of(head);
  if (!store->password) return IDEM_E_STATE;
  if (strcmp(store->password, password) == 0) return IDEM_OK;
  char *copy = strdup(password);
  if (!copy) return IDEM_E_NOMEM;
  wipe_and_free(store->password);
  store->password = copy;
  return IDEM_OK;
}

static void dispose(redis_store *store) {
  for (int i = 0; i < IDEM__REDIS_LINES; i++) redis_line_close(&store->lines[i]);
  idem__watchers_deinit(&store->watchers);
  pthread_mutex_destroy(&store->lock);
  free(store->user);
  wipe_and_free(store->password);
  free(store);
}

static void free_store(idem__store *head) {
  redis_store *store = redis_of(head);
  pthread_mutex_lock(&store->lock);
  store->ending = true;
  pthread_mutex_unlock(&store->lock);
  store->stop(store->carrier);
  redis_take_back(store);
  while (!idem_list_empty(&store->flying)) {
    redis_job *job = IDEM_CONTAINER(store->flying.next, redis_job, link);
    idem_list_remove(&job->link);
    redis_job_end(store, job, &(idem__store_answer){.status = IDEM_E_CLOSED});
  }
  redis_refuse_waiting(store, IDEM_E_CLOSED, true);
  dispose(store);
}

static bool reaches(idem__store *head) { return atomic_load(&redis_of(head)->is_ready); }

static const idem__store_kind redis_kind = {
    .name = "redis",
    .run = run,
    .watch = redis_watch,
    .unwatch = redis_unwatch,
    .free = free_store,
    .reaches = reaches,
};

/* A prefix is part of a hash tag, of keys and of a channel: plain letters. */
static bool is_prefix(const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  size_t len = strlen(text);
  return len && len <= REDIS_BASE_MAX / 2 && strspn(text, plain) == len;
}

/* Channels know no databases, so a number other than 0 is in the name. */
static void name_keys(redis_store *store, const char *prefix, unsigned part) {
  char stem[REDIS_BASE_MAX - 32], tag[REDIS_BASE_MAX - 2];
  if (store->database)
    snprintf(stem, sizeof stem, "%s/%u", prefix, store->database);
  else
    snprintf(stem, sizeof stem, "%s", prefix);
  redis_name_part(tag, sizeof tag, stem, part, store->parts);
  snprintf(store->base, sizeof store->base, "{%s}", tag);
  snprintf(store->channel, sizeof store->channel, "%.80s:news", store->base);
}

static bool copy_names(redis_store *store, const idem__redis_opts *opts) {
  store->database = opts->database;
  store->parts = opts->parts;
  name_keys(store, opts->prefix ? opts->prefix : "idem", opts->part);
  store->user = opts->user ? strdup(opts->user) : NULL;
  store->password = opts->password ? strdup(opts->password) : NULL;
  return (store->user || !opts->user) && (store->password || !opts->password);
}

static void set_bounds(redis_store *store, const idem__redis_opts *opts) {
  store->max_bytes = opts->max_bytes ? opts->max_bytes : (size_t)512 << 20;
  store->queued_count = opts->queued_count ? opts->queued_count : 65536;
  store->queued_bytes = opts->queued_bytes ? opts->queued_bytes : (size_t)64 << 20;
  store->replicas = opts->replicas;
  store->wait_ms = opts->wait_ms ? opts->wait_ms : 5000;
  store->grace_ms = opts->grace_ms ? opts->grace_ms : 1000;
}

static idem_status open_store(const idem__redis_opts *opts, idem__store **out) {
  *out = NULL;
  if (opts->prefix && !is_prefix(opts->prefix)) return IDEM_E_INVAL;
  if (opts->parts > IDEM__STORE_PARTS_MAX || (opts->part && opts->part >= opts->parts))
    return IDEM_E_INVAL;
  redis_store *store = calloc(1, sizeof *store);
  if (!store) return IDEM_E_NOMEM;
  store->head.kind = &redis_kind;
  atomic_init(&store->head.refs, 1);
  set_bounds(store, opts);
  store->wake = opts->wake;
  store->stop = opts->stop;
  store->carrier = opts->carrier;
  idem_list_init(&store->queue);
  idem_list_init(&store->flying);
  idem_list_init(&store->aside);
  pthread_mutex_init(&store->lock, NULL);
  idem__watchers_init(&store->watchers);
  for (int i = 0; i < IDEM__REDIS_LINES; i++) store->lines[i].due_ms = UINT64_MAX;
  if (copy_names(store, opts)) {
    *out = &store->head;
    return IDEM_OK;
  }
  dispose(store);
  return IDEM_E_NOMEM;
}

extern const idem__redis_module idem__redis_module_table;
__attribute__((visibility("default"))) const idem__redis_module idem__redis_module_table = {
    .open = open_store,
    .counts = count,
    .pass = pass,
    .password = change_password,
    .begin = redis_begin,
    .output = redis_output,
    .sent = redis_sent,
    .feed = redis_feed,
    .tick = redis_tick,
    .end = redis_end,
    .place = redis_place,
    .joined = redis_joined,
    .ready = redis_ready,
    .fault = fault,
};
