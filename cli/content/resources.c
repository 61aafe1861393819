/* resources.c - files as resources. A directory's files are opened beneath it by the kernel
 * (openat2), so that neither ".." nor a link leads out of it; hidden files are not served, nor those of secrets
 * and tokens, by whatever name. */
#include "content.h"

#include "config/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct mime {
  const char *ending;
  const char *type;
} mimes[] = {
    {".md", "text/markdown"},     {".txt", "text/plain"},
    {".html", "text/html"},       {".css", "text/css"},
    {".csv", "text/csv"},         {".json", "application/json"},
    {".xml", "application/xml"},  {".yaml", "application/yaml"},
    {".yml", "application/yaml"}, {".js", "text/javascript"},
    {".c", "text/x-c"},           {".h", "text/x-c"},
    {".py", "text/x-python"},     {".sh", "text/x-shellscript"},
    {".png", "image/png"},        {".jpg", "image/jpeg"},
    {".jpeg", "image/jpeg"},      {".gif", "image/gif"},
    {".svg", "image/svg+xml"},    {".webp", "image/webp"},
    {".pdf", "application/pdf"},  {".wav", "audio/wav"},
    {".mp3", "audio/mpeg"},       {".zip", "application/zip"},
};

static const char *mime_of(const resource_config *config, const char *path) {
  const char *dot = strrchr(path, '.');
  if (config->mime_type) return config->mime_type;
  for (size_t i = 0; dot && i < sizeof mimes / sizeof *mimes; i++)
    if (strcasecmp(mimes[i].ending, dot) == 0) return mimes[i].type;
  return NULL;
}

/* ------------------------------------------------------------------------- opening */

static int open_beneath(int folder, const char *path) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

/* No empty, hidden or parent elements. */
static bool is_plain_path(const char *path) {
  if (!*path || strlen(path) >= PATH_MAX) return false;
  for (const char *at = path;; at++) {
    if (*at == '.' || *at == '/' || !*at) return false;
    at = strchr(at, '/');
    if (!at) return true;
  }
}

static bool is_served_path(const resource_config *config, const char *path) {
  return is_plain_path(path) && listing_includes(config, path);
}

/* What an open file or folder is called by now; false: that is not to be had. */
static bool real_name(int fd, char name[PATH_MAX]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t len = readlink(link, name, PATH_MAX - 1);
  if (len <= 0) return false;
  name[len] = 0;
  return true;
}

/* A link must not give another name to what is not served under its own. */
static bool is_served_file(const open_resource *self, int fd) {
  char folder[PATH_MAX], file[PATH_MAX];
  if (!real_name(self->folder, folder) || !real_name(fd, file)) return false;
  size_t len = folder[1] ? strlen(folder) : 0; /* the root has no name before its slash */
  return strncmp(file, folder, len) == 0 && file[len] == '/' &&
         is_served_path(self->config, file + len + 1);
}

/* Looked at each time: a secret may have become another file. */
static bool is_kept(const open_resource *self, int fd) {
  char name[PATH_MAX];
  struct stat about;
  if (fstat(fd, &about) != 0) return true;
  hidden_moment now = hidden_look(self->hidden);
  bool kept = hidden_is(&now, &about, real_name(fd, name) ? name : NULL);
  hidden_moment_free(&now);
  return kept;
}

static int open_resource_file(const open_resource *self, const char *path) {
  const resource_config *config = self->config;
  if (!config->is_directory)
    return regular_file_open_unlinked(config->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  int fd = is_served_path(config, path) ? open_beneath(self->folder, path) : -1;
  if (fd < 0 || is_served_file(self, fd)) return fd;
  close(fd);
  return -1;
}

/* ------------------------------------------------------------------------- reading */

static bool read_all(int fd, idem_buf *out) {
  char bytes[16384];
  ssize_t got;
  while ((got = read(fd, bytes, sizeof bytes)) > 0)
    if (idem_buf_put(out, bytes, (size_t)got) != IDEM_OK) return false;
  return got == 0;
}

static void answer_bytes(idem_request *request, const char *mime, const idem_buf *bytes) {
  const char *data = bytes->len ? bytes->data : "";
  if (idem_utf8_valid(data, bytes->len) && !memchr(data, 0, bytes->len))
    idem_resource_text(request, mime ? mime : "text/plain", data, bytes->len);
  else
    idem_resource_blob(request, mime ? mime : "application/octet-stream", data, bytes->len);
}

static void answer_file(idem_request *request, const open_resource *self, const char *path) {
  struct stat about;
  idem_buf bytes;
  int fd = open_resource_file(self, path);
  if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || is_kept(self, fd)) {
    if (fd >= 0) close(fd);
    idem_resource_missing(request);
    return;
  }
  idem_buf_init(&bytes, NULL, self->config->max_bytes);
  if (read_all(fd, &bytes))
    answer_bytes(request, mime_of(self->config, path), &bytes);
  else
    idem_reply_error_text(request, IDEM_RPC_SERVER_ERROR, "Resource cannot be read",
                          "it is larger than max_bytes, or reading it failed");
  idem_buf_deinit(&bytes);
  close(fd);
}

/* The path behind the directory's URI, %XX undone; false: none that can be a path. */
static bool path_in(const open_resource *self, const char *uri, char *path, size_t size) {
  size_t skip = strlen(self->uri), len = 0;
  if (strncmp(uri, self->uri, skip) != 0) return false;
  for (const char *at = uri + skip; *at; at++) {
    char c = *at;
    if (c == '%') {
      int high = idem_hex_value(at[1]), low = high < 0 ? -1 : idem_hex_value(at[2]);
      if (low < 0 || !(high | low)) return false;
      c = (char)(high * 16 + low);
      at += 2;
    }
    if (len + 1 >= size) return false;
    path[len++] = c;
  }
  path[len] = 0;
  return true;
}

static void answer(idem_request *request, const char *uri, void *user) {
  const open_resource *self = user;
  char path[PATH_MAX];
  if (!self->config->is_directory)
    answer_file(request, self, self->config->path);
  else if (path_in(self, uri, path, sizeof path))
    answer_file(request, self, path);
  else
    idem_resource_missing(request);
}

/* ------------------------------------------------------------------------- listing */

static bool add(const open_resource *self, idem_server *server, const char *uri, const char *name,
                const char *mime, bool is_template) {
  char why[256] = "no memory";
  idem_resource resource = {
      .uri = uri,
      .name = name,
      .title = is_template || !self->config->is_directory ? self->config->title : NULL,
      .description = self->config->description,
      .mime_type = mime,
      .is_template = is_template,
      .scopes = self->config->scopes,
      .fn = answer,
      .user = (void *)(uintptr_t)self};
  if (idem_server_add_resource(server, &resource, why, sizeof why) == IDEM_OK) return true;
  source_fault(self->source, self->config->key, "resource %s: %s", name, why);
  return false;
}

static idem_status put_escaped(idem_buf *uri, const char *path) {
  idem_status status = IDEM_OK;
  for (; *path && status == IDEM_OK; path++) {
    unsigned char c = (unsigned char)*path;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 strchr("-._~/", c);
    status = plain ? idem_buf_put(uri, path, 1) : idem_buf_printf(uri, "%%%02X", c);
  }
  return status;
}

/* The URI of a file beneath a directory. */
static bool put_uri(const open_resource *self, const char *path, idem_buf *uri) {
  idem_buf_init(uri, NULL, (size_t)4 * PATH_MAX);
  return idem_buf_put(uri, self->uri, strlen(self->uri)) == IDEM_OK &&
         put_escaped(uri, path) == IDEM_OK && idem_buf_put(uri, "", 1) == IDEM_OK;
}

static bool list_file(const open_resource *self, idem_server *server, const char *path) {
  idem_buf uri;
  bool fine = put_uri(self, path, &uri) &&
              add(self, server, uri.data, path, mime_of(self->config, path), false);
  idem_buf_deinit(&uri);
  return fine;
}

/* ------------------------------------------------------------------------ watching */

typedef struct sight {
  open_resource *resource;
  watcher *watches;
} sight;

static void see_folder(void *user, const char *path) {
  const sight *self = user;
  open_resource *resource = self->resource;
  char whole[PATH_MAX];
  int len = snprintf(whole, sizeof whole, "%s%s%s", resource->config->path, *path ? "/" : "", path);
  if (len < (int)sizeof whole) watcher_want(self->watches, resource, &resource->dirty, whole);
}

static void watch_parent(open_resource *self, watcher *watches) {
  const char *path = self->config->path, *slash = strrchr(path, '/');
  char folder[PATH_MAX];
  int len = slash > path ? (int)(slash - path) : 1;
  snprintf(folder, sizeof folder, "%.*s", len, path);
  watcher_want(watches, self, &self->dirty, folder);
}

static void tell_updated(const open_resource *self, idem_server *server, const char *path) {
  idem_buf uri;
  if (put_uri(self, path, &uri)) idem_server_resource_updated(server, uri.data);
  idem_buf_deinit(&uri);
}

static void unlist_file(const open_resource *self, idem_server *server, const char *path) {
  idem_buf uri;
  if (put_uri(self, path, &uri)) {
    idem_server_remove_resource(server, uri.data);
    idem_server_resource_updated(server, uri.data);
  }
  idem_buf_deinit(&uri);
}

/* Both are sorted: what is in one alone came or went. */
static void tell_difference(const open_resource *self, idem_server *server, const file_list *now) {
  const file_list *before = &self->files;
  for (size_t i = 0, j = 0; i < before->count || j < now->count;) {
    const listed_file *old = &before->files[i], *new = &now->files[j];
    int order = i == before->count ? 1 : j == now->count ? -1 : strcmp(old->path, new->path);
    if (order < 0)
      unlist_file(self, server, old->path);
    else if (order > 0)
      list_file(self, server, new->path);
    else if (!stamp_same(&old->stamp, &new->stamp))
      tell_updated(self, server, new->path);
    i += order <= 0;
    j += order >= 0;
  }
}

static void look_at_directory(open_resource *self, idem_server *server, watcher *watches) {
  file_list now;
  sight folders = {.resource = self, .watches = watches};
  watcher_begin(watches, self);
  bool whole = listing_read(&now, self->config, self->folder, self->hidden, see_folder, &folders);
  watcher_end(watches, self);
  if (whole) tell_difference(self, server, &now);
  if (whole) {
    file_list before = self->files;
    self->files = now;
    now = before;
  }
  listing_free(&now);
}

static void look_at_file(open_resource *self, idem_server *server) {
  file_stamp now = stamp_file(self->config->path);
  if (!stamp_same(&now, &self->stamp)) idem_server_resource_updated(server, self->uri);
  self->stamp = now;
}

void content_look(content_host *self, idem_server *server, watcher *watches) {
  for (size_t i = 0; i < self->config->resource_count; i++) {
    open_resource *resource = &self->resources[i];
    if (!resource->dirty) continue;
    resource->dirty = false;
    if (resource->config->is_directory)
      look_at_directory(resource, server, watches);
    else
      look_at_file(resource, server);
  }
}

/* A directory is looked at once more: what came since it was listed had nobody to tell. */
void content_watch(content_host *self, watcher *watches) {
  for (size_t i = 0; i < self->config->resource_count; i++) {
    open_resource *resource = &self->resources[i];
    resource->dirty = true;
    if (!resource->config->is_directory) watch_parent(resource, watches);
  }
}

void content_unwatch(content_host *self, watcher *watches) {
  for (size_t i = 0; i < self->config->resource_count; i++)
    watcher_forget(watches, &self->resources[i]);
}

/* ------------------------------------------------------------------------ together */

/* One that is served alone is a mistake; of a folder's it is good to know. */
static bool may_serve_file(const open_resource *self) {
  struct stat about;
  hidden_moment now = hidden_look(self->hidden);
  bool serves =
      stat(self->config->path, &about) != 0 || !hidden_is(&now, &about, self->config->path);
  hidden_moment_free(&now);
  if (serves) return true;
  source_fault(
      self->source, self->config->key,
      "resource %s: this is the file of a secret or of tokens, or root's alone: it is never "
      "served",
      self->config->name);
  return false;
}

static void note_kept(const open_resource *self) {
  const char *folder = self->config->path;
  size_t len = folder[1] ? strlen(folder) : 0;
  for (size_t i = 0; i < self->hidden->count; i++) {
    const char *path = self->hidden->paths[i];
    if (strncmp(path, folder, len) != 0 || path[len] != '/' ||
        !is_served_path(self->config, path + len + 1))
      continue;
    source_note(self->source, self->config->key,
                "resource %s: %s is %s: it is not served with the others", self->config->name,
                path + len + 1,
                i < self->hidden->named ? "the file of a secret or of tokens" : "root's alone");
  }
}

static bool fill_one(open_resource *self, idem_server *server) {
  const resource_config *config = self->config;
  if (!config->is_directory) {
    if (!may_serve_file(self)) return false;
    self->stamp = stamp_file(config->path);
    snprintf(self->uri, sizeof self->uri, "idem://%s", config->name);
    return add(self, server, self->uri, config->name, mime_of(config, config->path), false);
  }
  self->folder = open(config->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self->folder < 0) {
    source_fault(self->source, config->key, "resource %s: %s", config->name, strerror(errno));
    return false;
  }
  char pattern[256];
  note_kept(self);
  snprintf(self->uri, sizeof self->uri, "idem://%s/", config->name);
  snprintf(pattern, sizeof pattern, "%s{+path}", self->uri);
  if (!add(self, server, pattern, config->name, config->mime_type, true)) return false;
  if (!listing_read(&self->files, config, self->folder, self->hidden, NULL, NULL)) return false;
  for (size_t i = 0; i < self->files.count; i++)
    if (!list_file(self, server, self->files.files[i].path)) return false;
  return true;
}

void content_init(content_host *self, serve_config *config, hidden_files *hidden) {
  *self = (content_host){.config = config};
  self->resources = calloc(config->resource_count + 1, sizeof *self->resources);
  for (size_t i = 0; self->resources && i < config->resource_count; i++)
    self->resources[i] = (open_resource){
        .config = &config->resources[i], .source = &config->source, .hidden = hidden, .folder = -1};
}

bool content_fill(content_host *self, idem_server *server) {
  bool fine = self->resources;
  for (size_t i = 0; fine && i < self->config->resource_count; i++)
    fine = fill_one(&self->resources[i], server);
  return prompts_fill(self->config, server) && fine;
}

void content_deinit(content_host *self) {
  for (size_t i = 0; self->resources && i < self->config->resource_count; i++) {
    if (self->resources[i].folder >= 0) close(self->resources[i].folder);
    listing_free(&self->resources[i].files);
  }
  free(self->resources);
}
