/* runtime.c - what the peers of one loop share: a pool, a read buffer, a list of those with output
 * to send before the loop blocks, and one timer for all their deadlines.
 * A loop's `data` is the embedder's, so runtimes are found in a list of the process. */
#include "uv/runtime.h"
#include "rpc/rpc.h"

#include <pthread.h>

#define TRIM_AFTER_MS 1000
#define TURN_NS ((uint64_t)30 * 1000000)

static pthread_mutex_t runtimes_lock = PTHREAD_MUTEX_INITIALIZER;
static idem__runtime *runtimes;

idem__runtime *idem__runtime_find(const uv_loop_t *loop) {
  pthread_mutex_lock(&runtimes_lock);
  idem__runtime *runtime = runtimes;
  while (runtime && runtime->loop != loop) runtime = runtime->next;
  pthread_mutex_unlock(&runtimes_lock);
  return runtime;
}

static void enlist(idem__runtime *runtime) {
  pthread_mutex_lock(&runtimes_lock);
  runtime->next = runtimes;
  runtimes = runtime;
  pthread_mutex_unlock(&runtimes_lock);
}

static void delist(const idem__runtime *runtime) {
  pthread_mutex_lock(&runtimes_lock);
  idem__runtime **link = &runtimes;
  while (*link != runtime) link = &(*link)->next;
  *link = runtime->next;
  pthread_mutex_unlock(&runtimes_lock);
}

static void free_runtime(idem__runtime *runtime) {
  idem_alloc alloc = runtime->alloc;
  idem__heap_deinit(&runtime->deadlines);
  idem_pool_free(runtime->pool);
  idem__free(&alloc, runtime->read_buffer);
  idem__free(&alloc, runtime);
}

static void on_check(uv_check_t *check) {
  idem__runtime *runtime = check->data;
  idem__pool_new_turn(runtime->pool);
}

static void on_idle(uv_idle_t *idle) {
  idem__runtime *runtime = idle->data;
  if (!idem__pool_run_late(runtime->pool)) uv_idle_stop(idle);
}

static void on_late(void *user) {
  idem__runtime *runtime = user;
  uv_idle_start(&runtime->late, on_idle);
}

/* What peers ask may take long to answer, however it came: nobody else waits longer for that than a turn and what the
 * last of it took. */
static void begin_turns(idem__runtime *runtime) {
  uv_check_init(runtime->loop, &runtime->turns);
  uv_idle_init(runtime->loop, &runtime->late);
  runtime->turns.data = runtime->late.data = runtime;
  uv_check_start(&runtime->turns, on_check);
  uv_unref((uv_handle_t *)&runtime->turns);
  idem__pool_set_turns(runtime->pool, TURN_NS, idem__clock_ns, on_late, runtime);
  idem__pool_set_tick(runtime->pool, idem__coarse_clock_ns);
}

static idem_status new_runtime(uv_loop_t *loop, const idem_alloc *alloc, idem__runtime **out) {
  idem__runtime *runtime = idem__calloc(alloc, sizeof *runtime);
  if (!runtime) return IDEM_E_NOMEM;
  runtime->loop = loop;
  runtime->alloc = idem__alloc_or_default(alloc);
  runtime->armed_ms = runtime->trim_ms = UINT64_MAX;
  idem_list_init(&runtime->dirty);
  idem_list_init(&runtime->programs);
  idem_list_init(&runtime->attempts);
  idem_list_init(&runtime->openings);
  idem_list_init(&runtime->trims);
  idem__unfinished_init(&runtime->unfinished);
  idem__heap_init(&runtime->deadlines, &runtime->alloc);
  runtime->read_buffer = idem__malloc(&runtime->alloc, IDEM__READ_BYTES);
  if (!runtime->read_buffer || idem_pool_new(alloc, &runtime->pool) != IDEM_OK) {
    free_runtime(runtime);
    return IDEM_E_NOMEM;
  }
  uv_prepare_init(loop, &runtime->flusher);
  uv_timer_init(loop, &runtime->timer);
  uv_unref((uv_handle_t *)&runtime->timer);
  runtime->flusher.data = runtime->timer.data = runtime;
  runtime->open_handles = 4;
  begin_turns(runtime);
  *out = runtime;
  return IDEM_OK;
}

IDEM__EARLY idem_status idem__runtime_get(uv_loop_t *loop, const idem_alloc *alloc,
                                          idem__runtime **out) {
  idem__runtime *runtime = idem__runtime_find(loop);
  if (!runtime) {
    idem_status status = new_runtime(loop, alloc, &runtime);
    if (status != IDEM_OK) return status;
    enlist(runtime);
  }
  runtime->references++;
  *out = runtime;
  return IDEM_OK;
}

void idem__runtime_handle_closed(idem__runtime *runtime) {
  if (--runtime->open_handles == 0) free_runtime(runtime);
}

static void on_handle_closed(uv_handle_t *handle) { idem__runtime_handle_closed(handle->data); }

void idem__runtime_release(idem__runtime *runtime) {
  if (--runtime->references > 0) return;
  delist(runtime);
  idem__runtime_close_workers(runtime);
  idem__fetcher_close(runtime->fetcher);
  idem__pool_set_turns(runtime->pool, 0, NULL, NULL, NULL);
  uv_close((uv_handle_t *)&runtime->turns, on_handle_closed);
  uv_close((uv_handle_t *)&runtime->late, on_handle_closed);
  uv_close((uv_handle_t *)&runtime->flusher, on_handle_closed);
  uv_close((uv_handle_t *)&runtime->timer, on_handle_closed);
}

/* ---------------------------------------------------------------- flushing */

static void on_prepare(uv_prepare_t *prepare) { idem__runtime_flush(prepare->data); }

void idem__runtime_mark(idem__runtime *runtime, idem__driver *driver) {
  if (!idem_list_empty(&driver->dirty)) return;
  idem_list_append(&runtime->dirty, &driver->dirty);
  uv_prepare_start(&runtime->flusher, on_prepare);
}

void idem__runtime_flush(idem__runtime *runtime) {
  uv_prepare_stop(&runtime->flusher);
  while (!idem_list_empty(&runtime->dirty)) {
    idem__driver *driver = IDEM_CONTAINER(runtime->dirty.next, idem__driver, dirty);
    idem_list_remove(&driver->dirty);
    idem__driver_settle(driver);
  }
}

/* --------------------------------------------------------------- deadlines */

uint64_t idem__runtime_deadline(const idem__runtime *runtime) {
  const idem__timer *first = idem__heap_first(&runtime->deadlines);
  uint64_t at = first ? first->at_ms : UINT64_MAX;
  return at < runtime->trim_ms ? at : runtime->trim_ms;
}

static void on_timer(uv_timer_t *timer) {
  idem__runtime *runtime = timer->data;
  runtime->armed_ms = UINT64_MAX;
  idem__runtime_expire(runtime);
}

/* A timer that fires too early costs one look; so it is only ever moved forward, and a deadline
 * that recedes with every message costs nothing. */
void idem__runtime_arm(idem__runtime *runtime) {
  uint64_t at = idem__runtime_deadline(runtime);
  if (at >= runtime->armed_ms) return;
  uint64_t now = idem__clock_ms();
  uv_update_time(runtime->loop);
  uv_timer_start(&runtime->timer, on_timer, at > now ? at - now : 0, 0);
  runtime->armed_ms = at;
}

void idem__runtime_trim_later(idem__runtime *runtime) {
  if (runtime->trim_ms != UINT64_MAX) return;
  runtime->trim_ms = idem__clock_ms() + TRIM_AFTER_MS;
  idem__runtime_arm(runtime);
}

static void trim(idem__runtime *runtime) {
  idem_pool_trim(runtime->pool);
  for (idem_list *node = runtime->trims.next; node != &runtime->trims; node = node->next) {
    idem__trim *one = IDEM_CONTAINER(node, idem__trim, node);
    one->run(one);
  }
}

void idem__runtime_expire(idem__runtime *runtime) {
  uint64_t now = idem__clock_ms();
  if (now >= runtime->trim_ms) {
    runtime->trim_ms = UINT64_MAX;
    trim(runtime);
  }
  idem__timer *first;
  while ((first = idem__heap_first(&runtime->deadlines)) && first->at_ms <= now) {
    idem__heap_remove(&runtime->deadlines, first);
    idem__driver_expire(IDEM_CONTAINER(first, idem__driver, deadline));
  }
  idem__runtime_arm(runtime);
}

idem_status idem_loop_trace(uv_loop_t *loop, idem_trace_fn fn, void *user) {
  const idem__runtime *runtime = idem__runtime_find(loop);
  if (!runtime) return IDEM_E_NOTFOUND;
  idem_pool_trace(runtime->pool, fn, user);
  return IDEM_OK;
}
