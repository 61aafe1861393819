/* driver.c - see driver.h: read, feed, send, pause, expire, end.
 * Everything that may have changed a machine ends in settle, the one place that looks at what it wants
 * now. A driver is freed only after its wire has closed, so lists stay walkable. */
#include "uv/runtime.h"

#include <errno.h>

#define READS_A_TURN 4
#define EXPIRES_A_TURN 16
#define LINGER_MS 500

void idem__driver_init(idem__driver *driver, idem__runtime *runtime) {
  driver->runtime = runtime;
  runtime->references++;
  idem_list_init(&driver->node);
  idem_list_init(&driver->dirty);
}

static void wake(idem__driver *driver) {
  if (driver->machine->wake) driver->machine->wake(driver);
}

static bool set_deadline(idem__driver *driver, uint64_t at_ms) {
  if (idem__heap_put(&driver->runtime->deadlines, &driver->deadline, at_ms) != IDEM_OK)
    return false;
  idem__runtime_arm(driver->runtime);
  return true;
}

/* ------------------------------------------------------------------- the end */

static void forget(idem__driver *driver) {
  idem_list_remove(&driver->dirty);
  idem__heap_remove(&driver->runtime->deadlines, &driver->deadline);
}

/* False: what is behind the wire is ended first. Nobody hears the machine meanwhile. */
static bool depart(idem__driver *driver) {
  if (!driver->wire->depart || driver->departed) return true;
  if (driver->leaving) return false;
  driver->leaving = true;
  forget(driver);
  driver->machine->stop(driver, true);
  driver->wire->depart(driver);
  return false;
}

bool idem__driver_depart_in(idem__driver *driver, uint64_t ms) {
  return set_deadline(driver, idem__clock_ms() + ms);
}

void idem__driver_departed(idem__driver *driver) {
  driver->departed = true;
  idem__driver_close(driver);
}

void idem__driver_close(idem__driver *driver) {
  if (driver->closed) return;
  if (driver->busy) {
    driver->doomed = true;
    return;
  }
  if (!depart(driver)) return;
  driver->closed = true;
  forget(driver);
  driver->machine->close(driver);
  driver->wire->close(driver);
}

void idem__driver_gone(idem__driver *driver) {
  idem__runtime *runtime = driver->runtime;
  idem_list_remove(&driver->node);
  driver->machine->gone(driver);
  idem__runtime_release(runtime);
}

/* Closing a socket with unread input resets it, and a reset may overtake the last answers. So say
 * that we are done, and wait a moment for the other side to have read that. */
static void finish(idem__driver *driver) {
  if (!driver->machine->lingers || driver->eof || driver->blocked ||
      !driver->wire->end_output(driver)) {
    idem__driver_close(driver);
    return;
  }
  driver->lingering = true;
  driver->machine->close(driver);
  if (!set_deadline(driver, idem__clock_ms() + LINGER_MS) ||
      driver->wire->interest(driver, true, false) != IDEM_OK)
    idem__driver_close(driver);
}

/* What was read before is worked on first, though there is nobody to answer. */
static void lose(idem__driver *driver, ssize_t error) {
  if (!driver->lost) driver->lost = error;
  if (driver->machine->waits(driver) && driver->wire->interest(driver, false, false) == IDEM_OK)
    return;
  if (driver->machine->lost) driver->machine->lost(driver, driver->lost);
  idem__driver_close(driver);
}

/* ------------------------------------------------------------------ settling */

/* Writes until there is nothing left or the other side must read first. 0, or -errno. */
static ssize_t send_output(idem__driver *driver) {
  struct iovec *pieces = driver->runtime->pieces;
  for (;;) {
    int count = driver->machine->next(driver, pieces);
    driver->blocked = count > 0;
    if (count <= 0) return 0;
    ssize_t written = driver->wire->write(driver, pieces, count);
    if (written == -EAGAIN || written == -EINTR) return 0;
    if (written < 0) return written;
    if (!driver->machine->sent(driver, (size_t)written)) return 0;
  }
}

/* Its turn was: what it says is not sent. */
static void settle_lost(idem__driver *driver) {
  struct iovec *pieces = driver->runtime->pieces;
  int count;
  while ((count = driver->machine->next(driver, pieces)) > 0) {
    size_t len = 0;
    for (int i = 0; i < count; i++) len += pieces[i].iov_len;
    driver->machine->sent(driver, len);
  }
  lose(driver, driver->lost);
}

static bool overdue(const idem__driver *driver, uint64_t deadline) {
  if (deadline == UINT64_MAX) return false;
  if (driver->deadline.index != 0 && deadline >= driver->deadline.at_ms) return false;
  return deadline <= idem__clock_ms();
}

static void expire(idem__driver *driver) {
  driver->busy = true;
  driver->machine->expire(driver);
  driver->busy = false;
}

static bool is_over(const idem__driver *driver) {
  if (driver->failed || driver->doomed) return true;
  if (!driver->wants.done || driver->blocked) return false;
  return driver->machine->lingers || !driver->wire->holds || !driver->wire->holds(driver);
}

/* The deadline of a machine recedes with every message; one that is in the heap already and earlier
 * only costs a look when it comes. */
static inline bool watch_deadline(idem__driver *driver, uint64_t deadline, bool again) {
  if (driver->open_by_ms && driver->open_by_ms < deadline) deadline = driver->open_by_ms;
  if (deadline == UINT64_MAX) {
    idem__heap_remove(&driver->runtime->deadlines, &driver->deadline);
    return true;
  }
  if (again) deadline = idem__clock_ms() + 1; /* the other drivers come first */
  if (driver->deadline.index != 0 && driver->deadline.at_ms <= deadline) return true;
  return set_deadline(driver, deadline);
}

/* All is said: tell the other side, and go on reading until it has heard. */
static void end_output(idem__driver *driver) {
  if (driver->shut || driver->blocked) return;
  driver->shut = true;
  driver->wire->end_output(driver);
}

static inline void watch(idem__driver *driver, bool again) {
  bool reading = driver->wants.input && !driver->eof;
  if (driver->wants.end_output) end_output(driver);
  if (driver->wire->interest(driver, reading, driver->blocked) != IDEM_OK ||
      !watch_deadline(driver, driver->wants.deadline, again))
    idem__driver_close(driver);
}

static inline void settle(idem__driver *driver) {
  int rounds = 0;
  if (IDEM__UNLIKELY(driver->lost != 0)) {
    settle_lost(driver);
    return;
  }
  ssize_t sent = send_output(driver);
  driver->machine->look(driver);
  while (sent == 0 && rounds < EXPIRES_A_TURN && overdue(driver, driver->wants.deadline) &&
         !is_over(driver)) {
    expire(driver);
    sent = send_output(driver);
    driver->machine->look(driver);
    rounds++;
  }
  if (sent < 0)
    lose(driver, sent);
  else if (is_over(driver))
    finish(driver);
  else
    watch(driver, rounds == EXPIRES_A_TURN);
}

/* Handshakes have succeeded: whoever waits for that is told. */
static void look_for_opening(idem__driver *driver) {
  if (!idem__driver_live(driver)) return;
  if (driver->wire->open && !driver->wire->open(driver)) return;
  if (driver->machine->open && !driver->machine->open(driver)) return;
  driver->open_by_ms = 0;
  if (driver->machine->opened) driver->machine->opened(driver);
}

static IDEM__EARLY void settle_live(idem__driver *driver) {
  settle(driver);
  if (driver->open_by_ms) look_for_opening(driver);
}

void idem__driver_settle(idem__driver *driver) {
  if (driver->busy || !idem__driver_live(driver)) return;
  wake(driver);
  settle_live(driver);
}

IDEM__EARLY void idem__driver_mark(idem__driver *driver) {
  if (driver->busy || !idem__driver_live(driver)) return;
  idem__runtime_mark(driver->runtime, driver);
}

static void expire_live(idem__driver *driver) {
  if (driver->open_by_ms && driver->open_by_ms <= idem__clock_ms()) {
    driver->late = true; /* too late for a handshake to succeed */
    idem__driver_close(driver);
    return;
  }
  wake(driver);
  expire(driver);
  settle_live(driver);
}

void idem__driver_expire(idem__driver *driver) {
  if (driver->lingering)
    idem__driver_close(driver);
  else if (driver->leaving)
    driver->wire->depart(driver);
  else if (!driver->busy && !driver->closed)
    expire_live(driver);
}

/* -------------------------------------------------------------------- input */

/* A full buffer: there is more, and memory of this size is not needed for long. */
static bool feed_more(idem__driver *driver) {
  idem__runtime_trim_later(driver->runtime);
  if (driver->failed || driver->doomed) return false;
  driver->machine->look(driver);
  return driver->wants.input;
}

static bool drop(idem__driver *driver, ssize_t n) {
  if (n <= 0) idem__driver_close(driver);
  return n == (ssize_t)IDEM__READ_BYTES;
}

/* False when there is no more to read for now. */
static inline bool take(idem__driver *driver, ssize_t n) {
  if (n == -EAGAIN || n == -EINTR) return false;
  if (driver->lingering) return drop(driver, n);
  if (n < 0) {
    lose(driver, n);
    return false;
  }
  driver->busy = true;
  if (n > 0) {
    driver->machine->feed(driver, driver->runtime->read_buffer, (size_t)n);
  } else {
    driver->eof = true;
    driver->machine->end(driver);
  }
  driver->busy = false;
  return n == (ssize_t)IDEM__READ_BYTES && feed_more(driver);
}

IDEM__EARLY void idem__driver_take(idem__driver *driver, ssize_t n) {
  wake(driver);
  take(driver, n);
  if (idem__driver_live(driver)) settle_live(driver);
}

void idem__driver_readable(idem__driver *driver) {
  if (driver->busy || driver->closed || driver->leaving) return;
  char *buffer = driver->runtime->read_buffer;
  int reads = 0;
  wake(driver);
  while (take(driver, driver->wire->read(driver, buffer, IDEM__READ_BYTES)) &&
         driver->wire->reads_until_empty && ++reads < READS_A_TURN && !driver->closed) {
  }
  if (idem__driver_live(driver)) settle_live(driver);
}

void idem__driver_writable(idem__driver *driver) { idem__driver_settle(driver); }

/* -------------------------------------------------------------------- stopping */

void idem__driver_stop(idem__driver *driver, bool now) {
  if (!idem__driver_live(driver)) return;
  bool busy = driver->busy; /* a handler of its own may stop it */
  wake(driver);
  driver->busy = true;
  driver->machine->stop(driver, now);
  driver->busy = busy;
  idem__driver_mark(driver);
}

void idem__drivers_stop(idem_list *list, int step) {
  for (idem_list *node = list->next; node != list; node = node->next) {
    idem__driver *driver = IDEM_CONTAINER(node, idem__driver, node);
    if (step < 2)
      idem__driver_stop(driver, step == 1);
    else
      idem__driver_close(driver);
  }
}
