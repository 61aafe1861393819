/* watch.h - folders watched for changes, a bounded number of them; many changes in a moment are
 * one. What a folder is watched for is its owner's: the owner's mark is set, then `on_change` runs. */
#ifndef IDEM_CLI_WATCH_H
#define IDEM_CLI_WATCH_H

#include <idem/containers.h>
#include <sys/stat.h>
#include <uv.h>

/* Enough of a file to tell that it has changed; all zero: it is not there. */
typedef struct file_stamp {
  uint64_t device, inode, size;
  int64_t seconds, nanoseconds;
} file_stamp;

file_stamp stamp_of(const struct stat *about);
file_stamp stamp_file(const char *path);
bool stamp_same(const file_stamp *one, const file_stamp *other);

#define WATCH_BUCKETS 256u

typedef struct watcher {
  idem_list folders;
  struct watched_folder *buckets[WATCH_BUCKETS]; /* the same, by watch descriptor */
  size_t count;
  bool told_limit;
  int inotify;       /* -1: not needed yet, or not to be had */
  uint64_t pause_ms; /* until more is read; grows while something comes */
  uint64_t first_ms; /* of the changes not yet told; 0: none */
  uint64_t heard_ms; /* the last of them */
  uint64_t took_ms;  /* to tell of them the last time */
  uint64_t calm_ms;  /* not before; what takes long is done less often */
  uv_loop_t *loop;   /* NULL: there is none yet, and nothing is watched */
  uv_poll_t poll;    /* active while nothing has changed; then the timer is */
  uv_timer_t timer;
  idem_log *log;
  void (*on_change)(void *user);
  void *user;
} watcher;

void watcher_init(watcher *self, idem_log *log, void (*on_change)(void *user), void *user);
/* Its handles are unreferenced. */
bool watcher_start(watcher *self, uv_loop_t *loop);

/* To say what an owner wants watched: begin, want each folder, end. What it no longer wants is
 * dropped. `mark` is set when something changes there. */
void watcher_begin(watcher *self, const void *owner);
void watcher_want(watcher *self, const void *owner, bool *mark, const char *path);
void watcher_end(watcher *self, const void *owner);
/* Drops all of an owner's. */
void watcher_forget(watcher *self, const void *owner);

#endif
