/* offload.c - blocking work on libuv's threads, its answer on the loop.
 * The request stays ours to hand back: `after` runs once whatever became of the peer meanwhile. */
#include "uv/runtime.h"

#include <pthread.h>
#include <stdlib.h>

/* What libuv makes of its threads. */
#define THREADS 4u
#define THREADS_MOST 1024u
#define STACK_BYTES ((size_t)8 << 20)

/* ------------------------------------------------------------------- threads */

static pthread_mutex_t ready_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool ready;

static void *wait_for_all(void *lock) {
  pthread_mutex_lock(lock);
  pthread_mutex_unlock(lock);
  return NULL;
}

static unsigned wanted(void) {
  const char *text = getenv("UV_THREADPOOL_SIZE");
  unsigned long count = text ? strtoul(text, NULL, 10) : THREADS;
  return count < 1 ? 1 : count > THREADS_MOST ? THREADS_MOST : (unsigned)count;
}

/* All at the same time, and none of them for longer. */
static bool can_have(unsigned count) {
  pthread_t threads[THREADS_MOST];
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_attr_t attributes;
  unsigned made = 0;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_mutex_lock(&lock);
  while (made < count && pthread_create(&threads[made], &attributes, wait_for_all, &lock) == 0)
    made++;
  pthread_mutex_unlock(&lock);
  for (unsigned i = 0; i < made; i++) pthread_join(threads[i], NULL);
  pthread_attr_destroy(&attributes);
  return made == count;
}

static void do_nothing(uv_work_t *work) { (void)work; }
static void did_nothing(uv_work_t *work, int status) { (void)work, (void)status; }

/* libuv makes its threads for the first that asks, and aborts where it gets none. */
static bool make_threads(void) {
  uv_loop_t loop;
  uv_work_t first;
  if (!can_have(wanted()) || uv_loop_init(&loop) != 0) return false;
  bool made = uv_queue_work(&loop, &first, do_nothing, did_nothing) == 0;
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  return made;
}

idem_status idem_offload_ready(void) {
  if (atomic_load_explicit(&ready, memory_order_acquire)) return IDEM_OK;
  pthread_mutex_lock(&ready_lock);
  bool made = atomic_load(&ready) || make_threads();
  if (made) atomic_store_explicit(&ready, true, memory_order_release);
  pthread_mutex_unlock(&ready_lock);
  return made ? IDEM_OK : IDEM_E_SYS;
}

/* ---------------------------------------------------------------------- work */

typedef struct offloaded {
  uv_work_t work;
  idem_alloc alloc;
  idem_request *request;
  idem_work_fn fn;
  idem_after_fn after;
  void *job;
} offloaded;

static void on_work(uv_work_t *work) {
  const offloaded *self = work->data;
  self->fn(self->job);
}

static void on_done(uv_work_t *work, int status) {
  (void)status; /* nobody but us could cancel it, and we do not */
  offloaded self = *(const offloaded *)work->data;
  idem__free(&self.alloc, work->data);
  self.after(self.request, self.job);
}

idem_status idem_offload(uv_loop_t *loop, idem_request *request, idem_work_fn work,
                         idem_after_fn after, void *job) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  if (idem_offload_ready() != IDEM_OK) return IDEM_E_SYS;
  offloaded *self = idem__calloc(&alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  *self = (offloaded){.alloc = alloc, .request = request, .fn = work, .after = after, .job = job};
  self->work.data = self;
  if (uv_queue_work(loop, &self->work, on_work, on_done) != 0) {
    idem__free(&alloc, self);
    return IDEM_E_SYS;
  }
  idem_request_keep(request);
  return IDEM_OK;
}
