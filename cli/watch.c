/* watch.c - see watch.h. Folders rather than files are watched, because editors write a new file
 * and rename it; what has really changed is found out by looking (file_stamp), not from the event. */
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDERS_MAX 512u
#define CALM_MS 60u   /* after the last change ... */
#define MOST_MS 1000u /* ... but no longer after the first */

typedef struct folder {
  idem__list link;
  watcher *watcher;
  const void *owner;
  bool *mark;
  bool wanted;
  file_stamp stamp; /* another folder may come to have this name */
  uv_fs_event_t event;
  char path[];
} folder;

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

/* ------------------------------------------------------------------------ changes */

static void on_calm(uv_timer_t *timer) {
  watcher *self = timer->data;
  uint64_t began = uv_hrtime();
  self->first_ms = 0;
  self->on_change(self->user);
  self->calm_ms = CALM_MS + (uv_hrtime() - began) / 1000000u * 20u; /* 5 % of the time at most */
}

static void note_change(watcher *self) {
  uint64_t now = uv_now(self->loop), most = self->calm_ms > MOST_MS ? self->calm_ms : MOST_MS;
  if (!self->first_ms) self->first_ms = now;
  uint64_t spent = now - self->first_ms;
  uint64_t left = spent < most ? most - spent : 0;
  uv_timer_start(&self->timer, on_calm, left < self->calm_ms ? left : self->calm_ms, 0);
}

static void on_event(uv_fs_event_t *handle, const char *name, int events, int status) {
  const folder *self = handle->data;
  (void)name, (void)events, (void)status;
  *self->mark = true;
  note_change(self->watcher);
}

/* ------------------------------------------------------------------------ folders */

static void on_closed(uv_handle_t *handle) { free(handle->data); }

static void drop(folder *self) {
  idem__list_remove(&self->link);
  self->watcher->count--;
  uv_close((uv_handle_t *)&self->event, on_closed);
}

static folder *find(const watcher *self, const void *owner, const char *path) {
  for (idem__list *at = self->folders.next; at != &self->folders; at = at->next) {
    folder *each = IDEM__CONTAINER(at, folder, link);
    if (each->owner == owner && strcmp(each->path, path) == 0) return each;
  }
  return NULL;
}

static void tell_limit(watcher *self, const char *path, const char *why) {
  if (!self->told_limit)
    idem_logf(self->log, IDEM_LOG_WARN, "changes of some files will not be noticed", "%s: %s", path,
              why);
  self->told_limit = true;
}

static void add(watcher *self, const void *owner, bool *mark, const char *path) {
  size_t len = strlen(path);
  if (self->count == FOLDERS_MAX) {
    tell_limit(self, path, "512 folders are watched already");
    return;
  }
  folder *made = calloc(1, sizeof *made + len + 1);
  if (!made || uv_fs_event_init(self->loop, &made->event) != 0) {
    free(made);
    return;
  }
  memcpy(made->path, path, len);
  made->watcher = self;
  made->owner = owner;
  made->mark = mark;
  made->wanted = true;
  made->stamp = stamp_file(path);
  made->event.data = made;
  idem__list_append(&self->folders, &made->link);
  self->count++;
  uv_unref((uv_handle_t *)&made->event);
  int error = uv_fs_event_start(&made->event, on_event, path, 0);
  if (error == 0) return;
  tell_limit(self, path, uv_strerror(error));
  drop(made);
}

void watcher_want(watcher *self, const void *owner, bool *mark, const char *path) {
  if (!self->loop) return;
  folder *known = find(self, owner, path);
  file_stamp now = stamp_file(path);
  if (known && !same_folder(&known->stamp, &now)) {
    drop(known);
    known = NULL;
  }
  if (known)
    known->wanted = true;
  else
    add(self, owner, mark, path);
}

/* ----------------------------------------------------------------------- together */

void watcher_begin(watcher *self, const void *owner) {
  for (idem__list *at = self->folders.next; at != &self->folders; at = at->next) {
    folder *each = IDEM__CONTAINER(at, folder, link);
    if (each->owner == owner) each->wanted = false;
  }
}

void watcher_end(watcher *self, const void *owner) {
  for (idem__list *at = self->folders.next; at != &self->folders;) {
    folder *each = IDEM__CONTAINER(at, folder, link);
    at = at->next;
    if (each->owner == owner && !each->wanted) drop(each);
  }
}

void watcher_forget(watcher *self, const void *owner) {
  watcher_begin(self, owner);
  watcher_end(self, owner);
}

void watcher_init(watcher *self, idem_log *log, void (*on_change)(void *user), void *user) {
  *self = (watcher){.log = log, .calm_ms = CALM_MS, .on_change = on_change, .user = user};
  idem__list_init(&self->folders);
}

bool watcher_start(watcher *self, uv_loop_t *loop) {
  if (uv_timer_init(loop, &self->timer) != 0) return false;
  uv_unref((uv_handle_t *)&self->timer);
  self->timer.data = self;
  self->loop = loop;
  return true;
}
