/* reload.c - the configuration again, when it or a file it refers to has changed, and on SIGHUP.
 * It is read and checked whole on a thread of the pool; then, on the loop, everything served is
 * exchanged at once. A faulty one is told of and changes nothing. */
#include "service.h"

#include "program/bounds.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ reading */

/* Back within what the server was started with: somebody who tightened a tool and undoes it gives nothing that was
 * not given before. */
static bool goes_back(const service *self, const edition *next) {
  if (bounds_loosened(&self->started->config, &next->config, NULL, false)) return false;
  if (bounds_loosened(&self->current->config, &next->config, NULL, false))
    idem_logf(self->log, IDEM_LOG_INFO, "tools are given back what the server was started with",
              "no more than that");
  return true;
}

/* Who can write the file would otherwise be whoever its tools can be made to be. */
static bool keeps_bounds(const service *self, const edition *next) {
  bool may = self->options->may_loosen;
  if (!may && goes_back(self, next)) return true;
  if (!bounds_loosened(&self->current->config, &next->config, self->log, !may) || may) return true;
  idem_logf(self->log, IDEM_LOG_WARN, "a reload that gives more is refused",
            "start again, or with --reload-may-loosen");
  return false;
}

/* On another thread: touches nothing that the loop uses but the log. */
static void read_again(uv_work_t *work) {
  service *self = work->data;
  bool plain = self->options->profile != IDEM_PROFILE_MCP;
  edition *next = edition_read(
      self->options->path, self->log, &self->files,
      (edition_use){.inputs = plain, .cautious = !self->options->may_loosen, .plain = plain});
  idem_server *scratch = next ? service_new_server(&next->config, self->options, self->log) : NULL;
  if (scratch && keeps_bounds(self, next) && edition_open(next, &self->programs) &&
      edition_fill(next, scratch)) {
    self->next = next;
    self->scratch = scratch;
    return;
  }
  idem_server_free(scratch);
  if (next) edition_free(next);
}

/* ----------------------------------------------------------------------- applying */

static bool differ(const char *one, const char *other) {
  return strcmp(one ? one : "", other ? other : "") != 0;
}

static void warn_of_head(const service *self, const serve_config *before, const serve_config *now) {
  if (differ(before->name, now->name) || differ(before->version, now->version) ||
      differ(before->title, now->title) || differ(before->description, now->description) ||
      differ(before->instructions, now->instructions) || before->codes != now->codes)
    idem_logf(self->log, IDEM_LOG_WARN, "some changes wait for the next start",
              "name, version, title, description, instructions and codes of the server");
}

static void apply(service *self) {
  edition *before = self->current, *now = self->next;
  char counts[CONFIG_COUNTS];
  self->next = NULL;
  self->current = now;
  service_keep_secrets(self);
  idem_server_replace(self->server, self->scratch);
  idem_server_free(self->scratch);
  self->scratch = NULL;
  program_host_limits(&self->programs, &now->config);
  plain_serve(&self->plain, now);
  service_complete(self);
  warn_of_head(self, &before->config, &now->config);
  content_unwatch(&before->content, &self->watcher);
  edition_pass_on(before, now);
  edition_retire(before);
  idem_logf(self->log, IDEM_LOG_INFO, "configuration reloaded", "%s",
            config_counts(&now->config, counts));
}

static void begin(service *self);

static void after_reading(uv_work_t *work, int status) {
  service *self = work->data;
  (void)status;
  self->reloading = false;
  if (self->options->page) page_reload_ends(&self->page, self->next != NULL);
  if (self->next)
    apply(self);
  else
    idem_logf(self->log, IDEM_LOG_WARN, "the old configuration stays in force",
              "why the new one is not taken is told above");
  service_watch(self);
  if (!self->again) return;
  self->again = false;
  begin(self);
}

static void begin(service *self) {
  if (self->reloading) {
    self->again = true;
    return;
  }
  if (idem_offload_ready() != IDEM_OK) {
    idem_logf(self->log, IDEM_LOG_WARN, "the old configuration stays in force",
              "threads to read the new one on cannot be had");
    return;
  }
  self->work.data = self;
  if (self->options->page) page_reload_begins(&self->page);
  self->reloading = uv_queue_work(self->loop, &self->work, read_again, after_reading) == 0;
}

/* ----------------------------------------------------------------------- noticing */

static bool files_changed(const service *self) {
  for (size_t i = 0; i < self->files.count; i++) {
    file_stamp now = stamp_file(self->files.paths[i]);
    if (!stamp_same(&now, &self->files.stamps[i])) return true;
  }
  return false;
}

/* While a reading is under way the list of files is its own; it is compared afterwards. */
static void on_change(void *user) {
  service *self = user;
  content_look(&self->current->content, self->server, &self->watcher);
  if (!self->files_dirty || self->reloading) return;
  self->files_dirty = false;
  if (files_changed(self)) begin(self);
}

static void watch_parent(service *self, const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  int len = slash ? (slash > path ? (int)(slash - path) : 1) : 1;
  snprintf(folder, sizeof folder, "%.*s", len, slash ? path : ".");
  watcher_want(&self->watcher, self, &self->files_dirty, folder);
}

void service_watch(service *self) {
  watcher_begin(&self->watcher, self);
  for (size_t i = 0; i < self->files.count; i++) watch_parent(self, self->files.paths[i]);
  watcher_end(&self->watcher, self);
  content_watch(&self->current->content, &self->watcher);
  self->files_dirty = true; /* what changed between reading and watching */
  on_change(self);
}

static void on_awake(uv_async_t *handle) { (void)handle; }

void service_on_loop(uv_loop_t *loop, void *user) {
  service *self = user;
  self->loop = loop;
  program_host_on_loop(&self->programs, loop);
  watcher_init(&self->watcher, self->log, on_change, self);
  uv_async_init(loop, &self->awake, on_awake);
  uv_unref((uv_handle_t *)&self->awake);
  if (self->options->page) page_on_loop(&self->page, loop);
  if (watcher_start(&self->watcher, loop)) service_watch(self);
}

void service_on_listening(const char *url, void *user) {
  service *self = user;
  if (self->options->page) page_on_listening(&self->page, url);
}

void service_on_hangup(void *user) {
  service *self = user;
  idem_logf(self->log, IDEM_LOG_INFO, "reading the configuration again", "SIGHUP");
  begin(self);
}
