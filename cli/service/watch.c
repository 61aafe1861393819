/* watch.c - see watch.h. Folders rather than files are watched, because editors write a new file
 * and rename it; what has really changed is found out by looking (file_stamp), not from the event.
 * Who writes without end is heard a few times a second: libuv's own watching would read for ever. */
#include "watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FOLDERS_MAX 512u
#define CALM_MS 60u   /* after the last change ... */
#define MOST_MS 1000u /* ... but no longer after the first */

#define READ_BYTES 16384u /* then a pause, whatever is left */
#define PAUSE_FIRST_MS 10u
#define PAUSE_MOST_MS 250u

/* IN_MODIFY, because a log that is served is never closed; IN_CLOSE_WRITE, because what is written
 * through a mapping is told no earlier; IN_ATTRIB for a time that is set. */
#define CHANGES                                                                                    \
  (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB |  \
   IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

typedef struct watched_folder folder;
struct watched_folder {
  idem_list link;
  folder *next; /* in its bucket */
  const void *owner;
  bool *mark;
  bool wanted;
  bool lost;        /* the kernel watches it no longer */
  int descriptor;   /* the same for all owners of a folder */
  file_stamp stamp; /* another folder may come to have this name */
  char path[];
};

/* ------------------------------------------------------------------------- stamps */

file_stamp stamp_of(const struct stat *about) {
  return (file_stamp){.device = about->st_dev,
                      .inode = about->st_ino,
                      .size = (uint64_t)about->st_size,
                      .seconds = about->st_mtim.tv_sec,
                      .nanoseconds = about->st_mtim.tv_nsec};
}

file_stamp stamp_file(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 ? stamp_of(&about) : (file_stamp){.device = 0};
}

bool stamp_same(const file_stamp *one, const file_stamp *other) {
  return one->device == other->device && one->inode == other->inode && one->size == other->size &&
         one->seconds == other->seconds && one->nanoseconds == other->nanoseconds;
}

static bool same_folder(const file_stamp *one, const file_stamp *other) {
  return one->device == other->device && one->inode == other->inode;
}

/* ------------------------------------------------------------------------ hearing */

static folder **bucket_of(watcher *self, int descriptor) {
  return &self->buckets[(unsigned)descriptor % WATCH_BUCKETS];
}

static void mark_all(watcher *self) {
  for (idem_list *at = self->folders.next; at != &self->folders; at = at->next)
    *IDEM_CONTAINER(at, folder, link)->mark = true;
}

static void take_event(watcher *self, const struct inotify_event *event) {
  if (event->mask & IN_Q_OVERFLOW) {
    mark_all(self);
    return;
  }
  for (folder *each = *bucket_of(self, event->wd); each; each = each->next) {
    if (each->descriptor != event->wd) continue;
    *each->mark = true;
    if (event->mask & IN_IGNORED) each->lost = true;
  }
}

/* Whether one more event would have found room, however long its name. */
static bool is_full(size_t len) {
  return len + sizeof(struct inotify_event) + NAME_MAX + 1 > READ_BYTES;
}

/* False: there were none. Where more come than are read, the queue says what was, not what is; then
 * everything may have changed. */
static bool take_events(watcher *self) {
  _Alignas(struct inotify_event) char bytes[READ_BYTES];
  ssize_t got = read(self->inotify, bytes, sizeof bytes);
  size_t len = got > 0 ? (size_t)got : 0;
  for (size_t at = 0; at < len;) {
    const struct inotify_event *event = (const void *)(bytes + at);
    take_event(self, event);
    at += sizeof *event + event->len;
  }
  if (is_full(len)) mark_all(self);
  return len > 0;
}

/* ------------------------------------------------------------------------ changes */

/* 5 % of the time at most. What took long once may be a machine that was busy or stood still. */
static void note_time(watcher *self, uint64_t took_ms) {
  uint64_t least = took_ms < self->took_ms ? took_ms : self->took_ms;
  self->took_ms = took_ms;
  self->calm_ms = CALM_MS + least * 20u;
}

static void tell(watcher *self) {
  uint64_t began = uv_hrtime();
  self->first_ms = 0;
  self->on_change(self->user);
  note_time(self, (uv_hrtime() - began) / 1000000u);
  uv_update_time(self->loop);
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void wait_for_change(watcher *self) {
  self->pause_ms = PAUSE_FIRST_MS;
  uv_poll_start(&self->poll, UV_READABLE, on_readable);
}

static uint64_t next_pause(watcher *self) {
  uint64_t pause = self->pause_ms;
  self->pause_ms = pause * 2 < PAUSE_MOST_MS ? pause * 2 : PAUSE_MOST_MS;
  return pause;
}

static void note_change(watcher *self) {
  self->heard_ms = uv_now(self->loop);
  if (!self->first_ms) self->first_ms = self->heard_ms;
}

/* From the first change until all is calm it is the timer that leads here, however much comes. */
static void on_time(uv_timer_t *timer) {
  watcher *self = timer->data;
  uint64_t now = uv_now(self->loop), most = self->calm_ms > MOST_MS ? self->calm_ms : MOST_MS;
  bool heard = take_events(self);
  if (heard) note_change(self);
  bool calm = now - self->heard_ms >= self->calm_ms;
  if (self->first_ms && (calm || now - self->first_ms >= most)) tell(self);
  if (!heard && !self->first_ms) {
    wait_for_change(self);
    return;
  }
  uint64_t pause = heard ? next_pause(self) : self->heard_ms + self->calm_ms - now;
  uint64_t left = self->first_ms ? self->first_ms + most - now : pause;
  uv_timer_start(timer, on_time, pause < left ? pause : left, 0);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
  watcher *self = poll->data;
  (void)status, (void)events;
  uv_poll_stop(poll);
  on_time(&self->timer);
}

/* ------------------------------------------------------------------------ folders */

static void tell_limit(watcher *self, const char *path, const char *why) {
  if (!self->told_limit)
    idem_logf(self->log, IDEM_LOG_WARN, "changes of some files will not be noticed", "%s: %s", path,
              why);
  self->told_limit = true;
}

static const char *why_no_instance(int error) {
  return error == EMFILE ? "too many instances of inotify for one user, or open files "
                           "(raise fs.inotify.max_user_instances, or the limit of open files)"
                         : strerror(error);
}

static const char *why_no_watch(int error) {
  return error == ENOSPC ? "too many watches of inotify for one user "
                           "(raise fs.inotify.max_user_watches)"
                         : strerror(error);
}

static bool start_inotify(watcher *self, const char *path) {
  if (self->inotify >= 0) return true;
  int made = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  int error = made < 0 ? errno : -uv_poll_init(self->loop, &self->poll, made);
  if (error) {
    if (made >= 0) close(made);
    tell_limit(self, path, why_no_instance(error));
    return false;
  }
  self->inotify = made;
  self->poll.data = self;
  wait_for_change(self);
  uv_unref((uv_handle_t *)&self->poll);
  return true;
}

static bool is_watched(watcher *self, int descriptor) {
  const folder *each = *bucket_of(self, descriptor);
  while (each && each->descriptor != descriptor) each = each->next;
  return each;
}

/* Unless another owner still wants it. */
static void unwatch(watcher *self, int descriptor) {
  if (!is_watched(self, descriptor)) inotify_rm_watch(self->inotify, descriptor);
}

static void drop(watcher *self, folder *gone) {
  folder **at = bucket_of(self, gone->descriptor);
  while (*at != gone) at = &(*at)->next;
  *at = gone->next;
  unwatch(self, gone->descriptor);
  idem_list_remove(&gone->link);
  self->count--;
  free(gone);
}

static folder *find(const watcher *self, const void *owner, const char *path) {
  for (idem_list *at = self->folders.next; at != &self->folders; at = at->next) {
    folder *each = IDEM_CONTAINER(at, folder, link);
    if (each->owner == owner && strcmp(each->path, path) == 0) return each;
  }
  return NULL;
}

static void keep(watcher *self, folder *made) {
  folder **bucket = bucket_of(self, made->descriptor);
  made->next = *bucket;
  *bucket = made;
  idem_list_append(&self->folders, &made->link);
  self->count++;
}

static void add(watcher *self, const folder *wish, const char *path) {
  size_t size = strlen(path) + 1;
  if (self->count == FOLDERS_MAX) {
    tell_limit(self, path, "512 folders are watched already");
    return;
  }
  if (!start_inotify(self, path)) return;
  int descriptor = inotify_add_watch(self->inotify, path, CHANGES);
  if (descriptor < 0) {
    tell_limit(self, path, why_no_watch(errno));
    return;
  }
  folder *made = calloc(1, sizeof *made + size);
  if (!made) {
    unwatch(self, descriptor);
    return;
  }
  *made = *wish;
  made->descriptor = descriptor;
  memcpy(made->path, path, size);
  keep(self, made);
}

void watcher_want(watcher *self, const void *owner, bool *mark, const char *path) {
  if (!self->loop) return;
  folder *known = find(self, owner, path);
  folder wish = {.owner = owner, .mark = mark, .wanted = true, .stamp = stamp_file(path)};
  if (known && (known->lost || !same_folder(&known->stamp, &wish.stamp))) {
    drop(self, known);
    known = NULL;
  }
  if (known)
    known->wanted = true;
  else
    add(self, &wish, path);
}

/* ----------------------------------------------------------------------- together */

void watcher_begin(watcher *self, const void *owner) {
  for (idem_list *at = self->folders.next; at != &self->folders; at = at->next) {
    folder *each = IDEM_CONTAINER(at, folder, link);
    if (each->owner == owner) each->wanted = false;
  }
}

void watcher_end(watcher *self, const void *owner) {
  for (idem_list *at = self->folders.next; at != &self->folders;) {
    folder *each = IDEM_CONTAINER(at, folder, link);
    at = at->next;
    if (each->owner == owner && !each->wanted) drop(self, each);
  }
}

void watcher_forget(watcher *self, const void *owner) {
  watcher_begin(self, owner);
  watcher_end(self, owner);
}

void watcher_init(watcher *self, idem_log *log, void (*on_change)(void *user), void *user) {
  *self = (watcher){
      .inotify = -1, .log = log, .calm_ms = CALM_MS, .on_change = on_change, .user = user};
  idem_list_init(&self->folders);
}

bool watcher_start(watcher *self, uv_loop_t *loop) {
  if (uv_timer_init(loop, &self->timer) != 0) return false;
  uv_unref((uv_handle_t *)&self->timer);
  self->timer.data = self;
  self->loop = loop;
  return true;
}
