/* resources.c - files as resources. A directory's files are opened beneath it by the kernel
 * (openat2), so that neither ".." nor a link leads out of it; hidden files are not served. */
#include "content.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST_MAX 1000u /* files of a directory that are listed; others can be read all the same */
#define DEPTH_MAX 16u

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

static bool is_included(const resource_config *config, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!config->include) return true;
  for (size_t i = 0; config->include[i]; i++)
    if (fnmatch(config->include[i], name, FNM_PERIOD) == 0) return true;
  return false;
}

static int open_resource_file(const open_resource *self, const char *path) {
  const resource_config *config = self->config;
  if (!config->is_directory) return open(config->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!is_plain_path(path) || !is_included(config, path)) return -1;
  return open_beneath(self->folder, path);
}

/* ------------------------------------------------------------------------- reading */

static bool read_all(int fd, idem__buf *out) {
  char bytes[16384];
  ssize_t got;
  while ((got = read(fd, bytes, sizeof bytes)) > 0)
    if (idem__buf_put(out, bytes, (size_t)got) != IDEM_OK) return false;
  return got == 0;
}

static void answer_bytes(idem_request *request, const char *mime, const idem__buf *bytes) {
  const char *data = bytes->len ? bytes->data : "";
  if (idem__utf8_valid(data, bytes->len) && !memchr(data, 0, bytes->len))
    idem_resource_text(request, mime ? mime : "text/plain", data, bytes->len);
  else
    idem_resource_blob(request, mime ? mime : "application/octet-stream", data, bytes->len);
}

static void answer_file(idem_request *request, const open_resource *self, const char *path) {
  struct stat about;
  idem__buf bytes;
  int fd = open_resource_file(self, path);
  if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    if (fd >= 0) close(fd);
    idem_resource_missing(request);
    return;
  }
  idem__buf_init(&bytes, NULL, self->config->max_bytes);
  if (read_all(fd, &bytes))
    answer_bytes(request, mime_of(self->config, path), &bytes);
  else
    idem_reply_error_text(request, IDEM_RPC_SERVER_ERROR, "Resource cannot be read",
                          "it is larger than max_bytes, or reading it failed");
  idem__buf_deinit(&bytes);
  close(fd);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = idem__ascii_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The path behind the directory's URI, %XX undone; false: none that can be a path. */
static bool path_in(const open_resource *self, const char *uri, char *path, size_t size) {
  size_t skip = strlen(self->uri), len = 0;
  if (strncmp(uri, self->uri, skip) != 0) return false;
  for (const char *at = uri + skip; *at; at++) {
    char c = *at;
    if (c == '%') {
      int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
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
      .fn = answer,
      .user = (void *)(uintptr_t)self};
  if (idem_server_add_resource(server, &resource, why, sizeof why) == IDEM_OK) return true;
  source_fault(self->source, self->config->key, "resource %s: %s", name, why);
  return false;
}

static void put_escaped(idem__buf *uri, const char *path) {
  for (; *path; path++) {
    unsigned char c = (unsigned char)*path;
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 strchr("-._~/", c);
    if (plain)
      idem__buf_put(uri, path, 1);
    else
      idem__buf_printf(uri, "%%%02X", c);
  }
}

typedef struct listing {
  const open_resource *resource;
  idem_server *server;
  unsigned count;
} listing;

static bool list_file(listing *self, const char *path) {
  const open_resource *resource = self->resource;
  idem__buf uri;
  if (!is_included(resource->config, path) || !idem__utf8_valid(path, strlen(path))) return true;
  idem__buf_init(&uri, NULL, (size_t)4 * PATH_MAX);
  idem__buf_put(&uri, resource->uri, strlen(resource->uri));
  put_escaped(&uri, path);
  bool fine = idem__buf_put(&uri, "", 1) == IDEM_OK &&
              add(resource, self->server, uri.data, path, mime_of(resource->config, path), false);
  idem__buf_deinit(&uri);
  self->count++;
  return fine;
}

static bool list_folder(listing *self, const char *path, unsigned depth);

static bool list_entry(listing *self, const char *path, const struct dirent *entry,
                       unsigned depth) {
  char inner[PATH_MAX];
  struct stat about;
  int len = snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "/" : "", entry->d_name);
  if (entry->d_name[0] == '.' || len >= (int)sizeof inner || self->count == LIST_MAX) return true;
  if (fstatat(self->resource->folder, inner, &about, AT_SYMLINK_NOFOLLOW) != 0) return true;
  if (S_ISREG(about.st_mode)) return list_file(self, inner);
  return !S_ISDIR(about.st_mode) || depth == DEPTH_MAX || list_folder(self, inner, depth + 1);
}

static bool list_folder(listing *self, const char *path, unsigned depth) {
  struct dirent **entries = NULL;
  bool fine = true;
  int fd = openat(self->resource->folder, *path ? path : ".",
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  int count = fd < 0 ? -1 : scandirat(fd, ".", &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    fine = fine && list_entry(self, path, entries[i], depth);
    free(entries[i]);
  }
  free(entries);
  if (fd >= 0) close(fd);
  return fine;
}

/* ------------------------------------------------------------------------ together */

static bool fill_one(open_resource *self, idem_server *server) {
  const resource_config *config = self->config;
  if (!config->is_directory) {
    snprintf(self->uri, sizeof self->uri, "idem://%s", config->name);
    return add(self, server, self->uri, config->name, mime_of(config, config->path), false);
  }
  self->folder = open(config->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (self->folder < 0) {
    source_fault(self->source, config->key, "resource %s: %s", config->name, strerror(errno));
    return false;
  }
  char pattern[256];
  snprintf(self->uri, sizeof self->uri, "idem://%s/", config->name);
  snprintf(pattern, sizeof pattern, "%s{+path}", self->uri);
  listing files = {.resource = self, .server = server};
  return add(self, server, pattern, config->name, config->mime_type, true) &&
         list_folder(&files, "", 0);
}

void content_init(content_host *self, serve_config *config) {
  *self = (content_host){.config = config};
  self->resources = calloc(config->resource_count + 1, sizeof *self->resources);
  for (size_t i = 0; self->resources && i < config->resource_count; i++)
    self->resources[i] =
        (open_resource){.config = &config->resources[i], .source = &config->source, .folder = -1};
}

bool content_fill(content_host *self, idem_server *server) {
  bool fine = self->resources;
  for (size_t i = 0; fine && i < self->config->resource_count; i++)
    fine = fill_one(&self->resources[i], server);
  return prompts_fill(self->config, server) && fine;
}

void content_deinit(content_host *self) {
  for (size_t i = 0; self->resources && i < self->config->resource_count; i++)
    if (self->resources[i].folder >= 0) close(self->resources[i].folder);
  free(self->resources);
}
