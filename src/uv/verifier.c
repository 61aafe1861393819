/* verifier.c - the threads that look at signatures. Who went to sleep last is woken first: its caches are warm, and one token after the other
 * costs one thread. Each sleeps on a semaphore of its own, so that no lock is held while one is woken. */
#include "uv/verifier.h"

#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS_MAX 4u

typedef struct worker {
  uv_thread_t thread;
  uv_sem_t wake;
  idem__verifying *next; /* what it is woken for; NULL: it goes */
  struct worker *under;  /* slept before it */
} worker;

/* The process's. */
static struct {
  uv_mutex_t mutex; /* of starting and ending */
  size_t users;
  idem__lock lock; /* of what follows */
  worker workers[THREADS_MAX];
  unsigned count, most;
  worker *asleep;
  idem_list queue;
} crew = {.lock = {ATOMIC_FLAG_INIT}, .queue = {&crew.queue, &crew.queue}};

static uv_once_t once = UV_ONCE_INIT;

static void make_mutex(void) { uv_mutex_init(&crew.mutex); }

/* ------------------------------------------------------------- the threads */

/* The loop may go as soon as it has heard of the last one and nobody is telling: nothing of its is touched after that. Who finds others
 * there before it need not wake it, they do. */
static void hand_back(idem__verifying *one) {
  static const uint64_t word = 1;
  idem__verified *to = one->to;
  atomic_fetch_add_explicit(&to->telling, 1, memory_order_relaxed);
  idem__lock_take(&to->lock);
  bool first = idem_list_empty(&to->done);
  idem_list_append(&to->done, &one->link);
  idem__lock_give(&to->lock);
  ssize_t written = first ? write(to->wake, &word, sizeof word) : 0;
  (void)written; /* it is readable, whatever came of it */
  atomic_fetch_sub_explicit(&to->telling, 1, memory_order_release);
}

/* NULL: there is nothing to do, and it counts as asleep. */
static idem__verifying *next_or_sleep(worker *self) {
  idem__verifying *next = NULL;
  idem__lock_take(&crew.lock);
  if (idem_list_empty(&crew.queue)) {
    self->under = crew.asleep;
    crew.asleep = self;
  } else {
    next = IDEM_CONTAINER(crew.queue.next, idem__verifying, link);
    idem_list_remove(&next->link);
    next->waits = false;
  }
  idem__lock_give(&crew.lock);
  return next;
}

/* A loop that runs as a batch would have its threads wait behind whoever has the CPU. */
static void prepare_thread(void) {
  const struct sched_param none = {0};
  sigset_t signals;
  sigfillset(&signals); /* they are the first thread's */
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  sched_setscheduler(0, SCHED_OTHER, &none);
}

static void work(void *arg) {
  worker *self = arg;
  prepare_thread();
  for (;;) {
    uv_sem_wait(&self->wake);
    if (!self->next) return;
    for (idem__verifying *one = self->next; one; one = next_or_sleep(self)) {
      one->run(one);
      hand_back(one);
    }
  }
}

/* ------------------------------------------------------ beginning and ending */

/* Asleep from the start, when nobody can ask for it yet. */
static idem_status start_one(void) {
  worker *self = &crew.workers[crew.count];
  *self = (worker){.under = crew.asleep};
  if (uv_sem_init(&self->wake, 0) != 0) return IDEM_E_SYS;
  if (uv_thread_create(&self->thread, work, self) != 0) {
    uv_sem_destroy(&self->wake);
    return IDEM_E_SYS;
  }
  crew.count++;
  crew.asleep = self;
  return IDEM_OK;
}

static unsigned most_threads(void) {
  unsigned cpus = uv_available_parallelism();
  return cpus < THREADS_MAX ? cpus : THREADS_MAX;
}

idem_status idem__verifier_join(void) {
  idem_status status = IDEM_OK;
  uv_once(&once, make_mutex);
  uv_mutex_lock(&crew.mutex);
  if (!crew.users) {
    crew.most = most_threads();
    while (crew.count < crew.most && status == IDEM_OK) status = start_one();
    if (crew.count) status = IDEM_OK;
  }
  if (status == IDEM_OK) crew.users++;
  uv_mutex_unlock(&crew.mutex);
  return status;
}

/* Nothing waits any more, and who worked last is about to sleep. */
static void end_all(void) {
  for (unsigned i = 0; i < crew.count; i++) {
    worker *self = &crew.workers[i];
    self->next = NULL;
    uv_sem_post(&self->wake);
    uv_thread_join(&self->thread);
    uv_sem_destroy(&self->wake);
  }
  crew.count = 0;
  crew.asleep = NULL;
}

void idem__verifier_leave(void) {
  uv_mutex_lock(&crew.mutex);
  if (--crew.users == 0) end_all();
  uv_mutex_unlock(&crew.mutex);
}

/* --------------------------------------------------------------------- work */

void idem__verifier_queue(idem__verifying *one) {
  idem__lock_take(&crew.lock);
  worker *awaken = crew.asleep;
  one->cancelled = false;
  one->waits = !awaken;
  if (awaken) {
    crew.asleep = awaken->under;
    awaken->next = one;
  } else {
    idem_list_append(&crew.queue, &one->link);
  }
  idem__lock_give(&crew.lock);
  if (awaken) uv_sem_post(&awaken->wake);
}

bool idem__verifier_cancel(idem__verifying *one) {
  idem__lock_take(&crew.lock);
  bool waits = one->waits;
  if (waits) {
    idem_list_remove(&one->link);
    one->waits = false;
    one->cancelled = true;
  }
  idem__lock_give(&crew.lock);
  if (waits) hand_back(one);
  return waits;
}

/* ------------------------------------------------------------------- hearing */

static void on_told(uv_poll_t *told, int status, int events) {
  idem__verified *self = told->data;
  uint64_t word;
  ssize_t got = read(self->wake, &word, sizeof word);
  (void)got, (void)status, (void)events; /* there is something to hear of, or there is not */
  self->heard(self->user);
}

idem_status idem__verified_init(idem__verified *self, uv_loop_t *loop, void (*heard)(void *user),
                                void *user) {
  *self = (idem__verified){.heard = heard, .user = user};
  idem__lock_init(&self->lock);
  idem_list_init(&self->done);
  self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (self->wake < 0) return IDEM_E_SYS;
  if (uv_poll_init(loop, &self->told, self->wake) != 0) {
    close(self->wake);
    return IDEM_E_SYS;
  }
  self->told.data = self;
  uv_poll_start(&self->told, UV_READABLE, on_told);
  uv_unref((uv_handle_t *)&self->told);
  return IDEM_OK;
}

void idem__verified_close(idem__verified *self, uv_close_cb closed) {
  while (atomic_load_explicit(&self->telling, memory_order_acquire)) sched_yield();
  uv_close((uv_handle_t *)&self->told, closed);
  close(self->wake);
}

idem__verifying *idem__verified_next(idem__verified *to) {
  idem__verifying *next = NULL;
  idem__lock_take(&to->lock);
  if (!idem_list_empty(&to->done)) {
    next = IDEM_CONTAINER(to->done.next, idem__verifying, link);
    idem_list_remove(&next->link);
  }
  idem__lock_give(&to->lock);
  return next;
}
