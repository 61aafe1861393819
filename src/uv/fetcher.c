/* fetcher.c - libcurl on a libuv loop: a poll handle for each socket it names, a timer when it asks
 * for one. Connections it keeps between requests have no handle and do not keep the loop alive.
 * See docs/internals/uv.md. */
#include "uv/fetcher.h"

#include <stdio.h>

#define LOOK_MS 20 /* between two looks at sockets that cannot be watched */

typedef struct watched {
  uv_poll_t poll;
  idem__fetcher *fetcher;
  int fd;
} watched;

/* ------------------------------------------------------------------- the end */

static void handle_closed(idem__fetcher *fetcher) {
  if (--fetcher->open_handles > 0) return;
  idem_alloc alloc = fetcher->alloc;
  idem__heap_deinit(&fetcher->deadlines);
  idem__free(&alloc, fetcher);
}

static void on_other_closed(uv_handle_t *handle) { handle_closed(handle->data); }

/* Only here is it certain that libcurl is not on the stack. */
static void on_timer_closed(uv_handle_t *handle) {
  idem__fetcher *fetcher = handle->data;
  fetcher->module->close(fetcher->set);
  handle_closed(fetcher);
}

static void on_poll_closed(uv_handle_t *handle) {
  watched *self = handle->data;
  idem__fetcher *fetcher = self->fetcher;
  idem__free(&fetcher->alloc, self);
  handle_closed(fetcher);
}

void idem__fetcher_close(idem__fetcher *fetcher) {
  if (!fetcher) return;
  uv_close((uv_handle_t *)&fetcher->timer, on_timer_closed);
  uv_close((uv_handle_t *)&fetcher->idle, on_other_closed);
  uv_close((uv_handle_t *)&fetcher->soon, on_other_closed);
}

/* ------------------------------------------------------- what libcurl asks for */

static void on_poll(uv_poll_t *poll, int status, int events) {
  const watched *self = poll->data;
  const idem__fetcher *fetcher = self->fetcher;
  fetcher->module->ready(fetcher->set, self->fd, (events & UV_READABLE) != 0,
                         (events & UV_WRITABLE) != 0, status < 0);
}

static watched *watch_new(idem__fetcher *fetcher, int fd) {
  watched *self = idem__calloc(&fetcher->alloc, sizeof *self);
  if (self && uv_poll_init(fetcher->loop, &self->poll, fd) != 0) {
    idem__free(&fetcher->alloc, self);
    self = NULL;
  }
  if (!self) return NULL;
  self->poll.data = self;
  self->fetcher = fetcher;
  self->fd = fd;
  fetcher->open_handles++;
  return self;
}

static void on_watch(void *user, int fd, bool read, bool write, void **mark) {
  idem__fetcher *fetcher = user;
  watched *self = *mark;
  if (!read && !write) {
    if (self) uv_close((uv_handle_t *)&self->poll, on_poll_closed);
    *mark = NULL;
    return;
  }
  if (!self) self = *mark = watch_new(fetcher, fd);
  if (self) {
    uv_poll_start(&self->poll, (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0), on_poll);
  } else {
    fetcher->blind = true;
    idem__fetcher_arm(fetcher);
  }
}

static void on_tick(uv_timer_t *timer) {
  const idem__fetcher *fetcher = timer->data;
  fetcher->module->tick(fetcher->set);
}

static void on_soon(uv_idle_t *soon) {
  const idem__fetcher *fetcher = soon->data;
  uv_idle_stop(soon);
  fetcher->module->tick(fetcher->set);
}

/* A timer of no time that is set again by its own function runs again before anything else does. */
static void on_set_timer(void *user, long after_ms) {
  idem__fetcher *fetcher = user;
  if (uv_is_closing((uv_handle_t *)&fetcher->timer)) return;
  uv_timer_stop(&fetcher->timer);
  uv_idle_stop(&fetcher->soon);
  if (after_ms < 0) return;
  if (after_ms == 0) {
    uv_idle_start(&fetcher->soon, on_soon);
    return;
  }
  uv_update_time(fetcher->loop);
  uv_timer_start(&fetcher->timer, on_tick, (uint64_t)after_ms, 0);
}

/* ------------------------------------------------------------- idle deadlines */

static void on_idle(uv_timer_t *timer) {
  idem__fetcher *fetcher = timer->data;
  uint64_t now = idem__clock_ms();
  idem__timer *first;
  if (fetcher->blind) fetcher->module->drive(fetcher->set);
  while ((first = idem__heap_first(&fetcher->deadlines)) && first->at_ms <= now) {
    idem__heap_remove(&fetcher->deadlines, first);
    fetcher->expire(first);
  }
  idem__fetcher_arm(fetcher);
}

/* Without a deadline it still runs, now and then: that is what keeps the loop alive for a request
 * whose socket is not watched at the moment. */
void idem__fetcher_arm(idem__fetcher *fetcher) {
  const idem__timer *first = idem__heap_first(&fetcher->deadlines);
  uint64_t now = idem__clock_ms(), at = first ? first->at_ms : now + 3600000;
  if (fetcher->running == 0) {
    fetcher->blind = false;
    uv_timer_stop(&fetcher->idle);
    return;
  }
  if (fetcher->blind && at > now + LOOK_MS) at = now + LOOK_MS;
  uv_update_time(fetcher->loop);
  uv_timer_start(&fetcher->idle, on_idle, at > now ? at - now : 0, 0);
}

void idem__fetcher_count(idem__fetcher *fetcher, bool more) {
  fetcher->running += more ? 1 : (size_t)-1;
  if (fetcher->running <= 1) idem__fetcher_arm(fetcher);
}

/* -------------------------------------------------------------------- opening */

idem_status idem__fetcher_get(idem__runtime *runtime, char *why, size_t size, idem__fetcher **out) {
  if ((*out = runtime->fetcher)) return IDEM_OK;
  const idem__curl_module *module = idem__module_load("curl", IDEM__CURL_SYMBOL, why, size);
  if (!module) return IDEM_E_SYS;
  idem__fetcher *fetcher = idem__calloc(&runtime->alloc, sizeof *fetcher);
  if (!fetcher) return IDEM_E_NOMEM;
  fetcher->module = module;
  fetcher->alloc = runtime->alloc;
  fetcher->loop = runtime->loop;
  idem__curl_host host = {.watch = on_watch, .set_timer = on_set_timer, .user = fetcher};
  if (module->open(&host, &fetcher->set) != IDEM_OK) {
    idem__free(&runtime->alloc, fetcher);
    return IDEM_E_NOMEM;
  }
  idem__heap_init(&fetcher->deadlines, &fetcher->alloc);
  uv_timer_init(runtime->loop, &fetcher->timer);
  uv_timer_init(runtime->loop, &fetcher->idle);
  uv_idle_init(runtime->loop, &fetcher->soon);
  fetcher->timer.data = fetcher->idle.data = fetcher->soon.data = fetcher;
  fetcher->open_handles = 3;
  uv_unref((uv_handle_t *)&fetcher->timer);
  uv_unref((uv_handle_t *)&fetcher->soon);
  *out = runtime->fetcher = fetcher;
  return IDEM_OK;
}
