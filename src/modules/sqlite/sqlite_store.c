/* sqlite_store.c - a store in a SQLite file: operations wait in a bounded queue for one thread, the writer, which runs
 * as many as there are in one transaction, commits, and only then tells what each came to. So one wait for the disk
 * serves everybody who asked meanwhile, and nothing is told that could still be lost with the process. */
#include "sqlite_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 1024    /* operations of one transaction */
#define GATHER_FROM 4 /* of a transaction half as large as the last: then more are waited for, */
#define GATHER_US 200 /* so long at most */
#define NEWS_MS 50    /* how often others' changes are looked for while somebody watches */
#define IDLE_MS 10000 /* and how often records whose time is over, while nobody asks */

static uint64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The clock of all who share the file. */
uint64_t sqlite_now_ms(sqlite_store *store) {
  uint64_t stopped = atomic_load(&store->stopped_ms);
  return stopped ? stopped : wall_ms();
}

static void pass(idem__store *head, uint64_t ms) {
  sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  atomic_store(&store->stopped_ms, sqlite_now_ms(store) + ms);
}

/* -------------------------------------------------------------------- jobs */

static bool is_valid(const idem__store_op *op) {
  if ((unsigned)op->space >= IDEM__STORE_SPACES) return false;
  if (op->group && strlen(op->group) > IDEM__STORE_GROUP_MAX) return false;
  if (op->verb == IDEM__STORE_LIST) return op->each != NULL;
  return op->name && op->name_len && op->name_len <= IDEM__STORE_NAME_MAX;
}

static void *copy(char **at, const void *bytes, size_t len) {
  char *here = *at;
  if (len) memcpy(here, bytes, len);
  *at += len;
  return here;
}

/* NULL: no memory. */
static sqlite_job *job_new(const idem__store_op *op) {
  size_t group_size = op->group ? strlen(op->group) + 1 : 0;
  size_t name_len = op->name ? op->name_len : 0;
  if (op->len > SIZE_MAX / 4) return NULL;
  size_t size = sizeof(sqlite_job) + name_len + op->len + group_size;
  sqlite_job *job = malloc(size);
  if (!job) return NULL;
  *job = (sqlite_job){.op = *op, .size = size, .answer = {.status = IDEM_E_SYS}};
  char *at = (char *)(job + 1);
  if (op->name) job->op.name = copy(&at, op->name, name_len);
  job->op.bytes = copy(&at, op->bytes, op->len);
  if (op->group) job->op.group = copy(&at, op->group, group_size);
  return job;
}

static void job_answer(sqlite_job *job) {
  if (job->op.done) job->op.done(&job->answer, job->op.user);
  free(job->value);
  free(job);
}

static void refuse(const idem__store_op *op, idem_status status) {
  idem__store_answer answer = {.status = status, .number = IDEM__STORE_FULL_ELSE};
  if (op->done) op->done(&answer, op->user);
}

static bool enqueue(sqlite_store *store, sqlite_job *job) {
  pthread_mutex_lock(&store->lock);
  bool fits = !store->ending && store->count < store->queued_count &&
              job->size <= store->queued_bytes - store->bytes;
  if (fits) {
    idem_list_append(&store->queue, &job->link);
    store->count++;
    store->bytes += job->size;
    if (store->count >= store->wanted) pthread_cond_signal(&store->work);
  }
  pthread_mutex_unlock(&store->lock);
  return fits;
}

static void run(idem__store *head, const idem__store_op *op) {
  sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  sqlite_job *job = is_valid(op) ? job_new(op) : NULL;
  if (!job) {
    refuse(op, is_valid(op) ? IDEM_E_NOMEM : IDEM_E_INVAL);
  } else if (!enqueue(store, job)) {
    free(job);
    refuse(op, IDEM_E_LIMIT);
  }
}

/* ------------------------------------------------------------ transactions */

static void read_totals(sqlite_store *store) {
  sqlite3_stmt *row = sqlite_use(store, SQL_GET_TOTALS);
  if (sqlite_step(store, row)) {
    store->totals.clock = (uint64_t)sqlite3_column_int64(row, 1);
    store->totals.bytes = (uint64_t)sqlite3_column_int64(row, 2);
    for (int i = 0; i < SQLITE_SPACES; i++)
      store->totals.counts[i] = (uint64_t)sqlite3_column_int64(row, 3 + i);
    store->totals.clashes = (uint64_t)sqlite3_column_int64(row, 3 + SQLITE_SPACES);
    for (int i = 0; i < 2; i++)
      store->totals.secret[i] = (uint64_t)sqlite3_column_int64(row, 4 + SQLITE_SPACES + i);
  } else {
    store->broken = true;
  }
  sqlite_done(row);
}

static void write_totals(sqlite_store *store) {
  sqlite3_stmt *statement = sqlite_use(store, SQL_SET_TOTALS);
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)store->totals.clock);
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)store->totals.bytes);
  for (int i = 0; i < SQLITE_SPACES; i++)
    sqlite3_bind_int64(statement, 3 + i, (sqlite3_int64)store->totals.counts[i]);
  sqlite3_bind_int64(statement, 3 + SQLITE_SPACES, (sqlite3_int64)store->totals.clashes);
  sqlite_execute(store, statement);
}

static bool begin(sqlite_store *store, bool writes) {
  sqlite_statement how = writes ? SQL_BEGIN_WRITE : SQL_BEGIN_READ;
  store->broken = store->swept = store->full = false;
  store->due.expires = 0;
  sqlite_groups_forget(store);
  if (!sqlite_execute(store, sqlite_use(store, how))) return false;
  store->alone = sqlite_data_version(store) == store->data_version;
  if (writes && !(store->alone && store->current)) read_totals(store);
  return true;
}

static bool commit(sqlite_store *store, bool writes) {
  if (writes && !store->broken) {
    sqlite_write_due(store);
    sqlite_groups_write(store);
    sqlite_write_news(store); /* a tick of the clock, so before the totals */
    write_totals(store);
  }
  return !store->broken && sqlite_execute(store, sqlite_use(store, SQL_COMMIT));
}

/* False: nothing of it happened. */
static bool end(sqlite_store *store, bool writes) {
  bool committed = commit(store, writes);
  if (writes) store->current = committed;
  if (committed) return true;
  sqlite_forget_seen(store);
  sqlite_execute(store, sqlite_use(store, SQL_ROLLBACK));
  return false;
}

/* ---------------------------------------------------------------- the writer */

/* Takes what waits, as much as one transaction is to hold. */
static void take_batch(sqlite_store *store, idem_list *batch) {
  store->last_batch = store->count < BATCH ? store->count : BATCH;
  for (int i = 0; i < BATCH && !idem_list_empty(&store->queue); i++) {
    sqlite_job *job = IDEM_CONTAINER(store->queue.next, sqlite_job, link);
    idem_list_remove(&job->link);
    idem_list_append(batch, &job->link);
    store->count--;
    store->bytes -= job->size;
  }
}

static bool batch_changes(const idem_list *batch) {
  for (const idem_list *at = batch->next; at != batch; at = at->next)
    if (sqlite_changes(&IDEM_CONTAINER(at, sqlite_job, link)->op)) return true;
  return false;
}

static void perform_all(sqlite_store *store, const idem_list *batch, uint64_t now_ms) {
  for (idem_list *at = batch->next; at != batch && !store->broken; at = at->next) {
    sqlite_job *job = IDEM_CONTAINER(at, sqlite_job, link);
    job->op.now_ms = now_ms;
    sqlite_perform(store, job);
  }
}

/* What was not committed is answered with SYS: nobody is told of what may not be so. */
static void answer_all(idem_list *batch, bool committed) {
  while (!idem_list_empty(batch)) {
    sqlite_job *job = IDEM_CONTAINER(batch->next, sqlite_job, link);
    idem_list_remove(&job->link);
    if (!committed) job->answer = (idem__store_answer){.status = IDEM_E_SYS};
    job_answer(job);
  }
}

static bool reads_alone(const idem__store_op *op) {
  return op->verb == IDEM__STORE_GET || op->verb == IDEM__STORE_PEEK;
}

/* There is no room for what the batch changes, and nothing of it has happened. What only looks is looked for again; what was shown item by item
 * cannot be shown twice. */
static void answer_full(sqlite_store *store, idem_list *batch, uint64_t now_ms) {
  idem_list reads;
  idem_list_init(&reads);
  for (idem_list *at = batch->next, *next; at != batch; at = next) {
    sqlite_job *job = IDEM_CONTAINER(at, sqlite_job, link);
    next = at->next;
    if (job->op.each) continue;
    idem_list_remove(at);
    free(job->value);
    job->value = NULL;
    job->answer = (idem__store_answer){.status = IDEM_E_LIMIT, .number = IDEM__STORE_FULL_OUTSIDE};
    if (reads_alone(&job->op))
      idem_list_append(&reads, at);
    else
      job_answer(job);
  }
  bool begun = !idem_list_empty(&reads) && begin(store, false);
  if (begun) perform_all(store, &reads, now_ms);
  answer_all(&reads, begun && end(store, false));
}

static void run_batch(sqlite_store *store, idem_list *batch) {
  uint64_t now = sqlite_now_ms(store);
  bool writes = batch_changes(batch) || sqlite_something_expired(store, now);
  bool committed = begin(store, writes);
  if (committed && writes) {
    store->swept = !sqlite_expire(store, now);
    sqlite_forget_news(store, now);
  }
  if (committed) perform_all(store, batch, now);
  committed = committed && end(store, writes);
  if (!committed && store->full) answer_full(store, batch, now);
  answer_all(batch, committed);
  sqlite_tell_own_news(store, committed);
  if (!committed || !store->alone || store->spilled) sqlite_tell_news(store);
}

/* Until there are so many, or the time is over. */
static void wait_for(sqlite_store *store, size_t wanted, long wait_us) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += wait_us / 1000000;
  until.tv_nsec += wait_us % 1000000 * 1000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  store->wanted = wanted;
  pthread_cond_timedwait(&store->work, &store->lock, &until);
}

static void wait_for_work(sqlite_store *store) {
  wait_for(store, 1, 1000L * (store->watched ? NEWS_MS : IDLE_MS));
}

/* Those who were answered last ask again in a moment, one after the other: a transaction for the first of them alone would have all
 * others wait. Who is alone waits for nobody. */
static void gather(sqlite_store *store) {
  size_t wanted = store->last_batch / 2;
  if (wanted >= GATHER_FROM && store->count && store->count < wanted && !store->ending)
    wait_for(store, wanted, GATHER_US);
}

static void *write_until_end(void *user) {
  sqlite_store *store = user;
  idem_list batch;
  idem_list_init(&batch);
  pthread_mutex_lock(&store->lock);
  while (!store->ending) {
    if (idem_list_empty(&store->queue)) wait_for_work(store);
    gather(store);
    take_batch(store, &batch);
    pthread_mutex_unlock(&store->lock);
    if (!idem_list_empty(&batch) || sqlite_something_expired(store, sqlite_now_ms(store)))
      run_batch(store, &batch);
    else
      sqlite_tell_news(store);
    pthread_mutex_lock(&store->lock);
  }
  pthread_mutex_unlock(&store->lock);
  return NULL;
}

/* ------------------------------------------------------------------ lifetime */

static void dispose(sqlite_store *store) {
  sqlite_file_close(store);
  pthread_cond_destroy(&store->work);
  idem__watchers_deinit(&store->watchers);
  pthread_mutex_destroy(&store->lock);
  free(store);
}

static void free_store(idem__store *head) {
  sqlite_store *store = IDEM_CONTAINER(head, sqlite_store, head);
  pthread_mutex_lock(&store->lock);
  store->ending = true;
  sqlite_file_leave(store);
  pthread_cond_signal(&store->work);
  pthread_mutex_unlock(&store->lock);
  pthread_join(store->writer, NULL);
  while (!idem_list_empty(&store->queue)) {
    sqlite_job *job = IDEM_CONTAINER(store->queue.next, sqlite_job, link);
    idem_list_remove(&job->link);
    job->answer.status = IDEM_E_CLOSED;
    job_answer(job);
  }
  dispose(store);
}

static const idem__store_kind sqlite_kind = {
    .name = "sqlite",
    .run = run,
    .watch = sqlite_watch,
    .unwatch = sqlite_unwatch,
    .free = free_store,
};

static sqlite_store *store_new(const idem__sqlite_opts *opts) {
  sqlite_store *store = calloc(1, sizeof *store);
  if (!store) return NULL;
  store->head.kind = &sqlite_kind;
  atomic_init(&store->head.refs, 1);
  store->max_bytes = opts->max_bytes ? opts->max_bytes : (size_t)512 << 20;
  store->queued_count = opts->queued_count ? opts->queued_count : 65536;
  store->queued_bytes = opts->queued_bytes ? opts->queued_bytes : (size_t)64 << 20;
  idem_list_init(&store->queue);
  pthread_condattr_t by_monotonic_clock;
  pthread_condattr_init(&by_monotonic_clock);
  pthread_condattr_setclock(&by_monotonic_clock, CLOCK_MONOTONIC);
  pthread_mutex_init(&store->lock, NULL);
  pthread_cond_init(&store->work, &by_monotonic_clock);
  idem__watchers_init(&store->watchers);
  pthread_condattr_destroy(&by_monotonic_clock);
  return store;
}

static idem_status open_store(const idem__sqlite_opts *opts, idem__store **out, char *why,
                              size_t size) {
  *out = NULL;
  sqlite_store *store = store_new(opts);
  if (!store) return IDEM_E_NOMEM;
  bool opened = sqlite_file_open(store, opts, why, size);
  if (opened) read_totals(store); /* also who only looks needs the secret of hashes */
  if (opened && store->broken) {
    snprintf(why, size, "it cannot be read");
    dispose(store);
    return IDEM_E_SYS;
  }
  if (opened && pthread_create(&store->writer, NULL, write_until_end, store) == 0) {
    *out = &store->head;
    return IDEM_OK;
  }
  if (opened) snprintf(why, size, "no thread can be started");
  dispose(store);
  return opened ? IDEM_E_SYS : IDEM_E_INVAL;
}

static idem_status check_store(const idem__sqlite_opts *opts, char *why, size_t size) {
  return sqlite_file_check(opts->path, why, size) ? IDEM_OK : IDEM_E_INVAL;
}

extern const idem__sqlite_module idem__sqlite_module_table;
__attribute__((visibility("default"))) const idem__sqlite_module idem__sqlite_module_table = {
    .open = open_store,
    .check = check_store,
    .pass = pass,
};
