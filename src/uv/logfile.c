/* logfile.c - where log lines go: stderr, or the file named by IDEM_LOG.
 * A process has one such place, whatever the number of logs. A reader of stderr that has stopped
 * reading must not stop the server: after a short wait lines are dropped, and counted. */
#include "uv/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLOGGED_WAIT_MS 500

static struct {
  int fd;
  bool may_block;
  bool clogged; /* the last line did not go out: do not wait for the next ones */
  atomic_ulong dropped;
  char path[PATH_MAX]; /* empty: stderr */
} sink = {.fd = STDERR_FILENO};

static IDEM__EARLY uint64_t wall_us(void *ctx) {
  (void)ctx;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* As the clock on the wall shows it. */
static uint64_t local_us(void *ctx) {
  uint64_t now = wall_us(ctx);
  time_t seconds = (time_t)(now / 1000000u);
  struct tm here;
  return localtime_r(&seconds, &here) ? now + (uint64_t)(here.tm_gmtoff * 1000000) : now;
}

/* --------------------------------------------------------------------- writing */

static bool has_room(void) {
  if (!sink.may_block) return true;
  struct pollfd out = {.fd = sink.fd, .events = POLLOUT};
  int wait = sink.clogged ? 0 : CLOGGED_WAIT_MS;
  sink.clogged = poll(&out, 1, wait) <= 0;
  return !sink.clogged;
}

static IDEM__EARLY void write_all(const char *text, size_t len) {
  while (len > 0) {
    ssize_t n = write(sink.fd, text, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return; /* a log that cannot be written has nowhere to say so */
    text += n;
    len -= (size_t)n;
  }
}

static void tell_dropped(void) {
  unsigned long dropped = atomic_exchange(&sink.dropped, 0);
  if (dropped == 0) return;
  char line[80];
  int len =
      snprintf(line, sizeof line, "(%lu log lines were dropped: nobody read them)\n", dropped);
  write_all(line, (size_t)len);
}

/* A line is at most 4 KiB, which a pipe with room takes whole. */
static IDEM__EARLY void write_line(void *ctx, const char *line, size_t len) {
  (void)ctx;
  if (!has_room()) {
    atomic_fetch_add(&sink.dropped, 1);
    return;
  }
  if (sink.may_block) tell_dropped();
  write_all(line, len);
}

/* --------------------------------------------------------------------- opening */

static int open_path(const char *path) {
  /* Non-blocking: a FIFO without a reader is an error, not a wait. */
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return above;
}

static void look_at_sink(void) {
  struct stat what;
  sink.may_block = fstat(sink.fd, &what) == 0 && !S_ISREG(what.st_mode) &&
                   (!S_ISCHR(what.st_mode) || isatty(sink.fd));
}

/* Returns 0 or the errno that made us stay with stderr. */
static int choose_sink(void) {
  const char *path = getenv("IDEM_LOG");
  int error = 0;
  if (path && *path && strlen(path) < sizeof sink.path && sink.path[0] == 0) {
    int fd = open_path(path);
    if (fd >= 0) {
      sink.fd = fd;
      memcpy(sink.path, path, strlen(path) + 1);
    } else {
      error = errno;
    }
  } else if (path && strlen(path) >= sizeof sink.path) {
    error = ENAMETOOLONG;
  }
  look_at_sink();
  return error;
}

static bool wants_color(const idem_log_setup *setup) {
  const char *no_color = getenv("NO_COLOR");
  return !setup->no_color && !(no_color && *no_color) && isatty(sink.fd);
}

IDEM__EARLY idem_status idem_log_open(const idem_log_setup *setup, idem_log **out) {
  int error = choose_sink();
  bool brief = setup->format == IDEM_LOG_TEXT && idem_log_is_watched();
  idem_log_opts opts = {.level = setup->level,
                        .format = setup->format,
                        .color = setup->format == IDEM_LOG_TEXT && wants_color(setup),
                        .write = write_line,
                        .wall_us = brief ? local_us : wall_us,
                        .brief_time = brief};
  idem_status status = idem_log_new(&opts, out);
  if (status == IDEM_OK && error != 0) {
    idem_logf(*out, IDEM_LOG_WARN, "cannot open the file named by IDEM_LOG, using stderr", "%s",
              strerror(error));
  }
  return status;
}

/* The new file takes the old one's descriptor in one step, so no line can fall between them. */
void idem_log_reopen(idem_log *log) {
  if (sink.path[0] == 0) return;
  int fd = open_path(sink.path);
  if (fd < 0 || dup3(fd, sink.fd, O_CLOEXEC) < 0) {
    idem_logf(log, IDEM_LOG_WARN, "cannot open the log file anew, keeping the old one", "%s",
              strerror(errno));
  }
  if (fd >= 0) close(fd);
}

bool idem_log_is_watched(void) { return isatty(sink.fd); }

const char *idem__log_sink_name(void) { return sink.path[0] ? sink.path : "stderr"; }
