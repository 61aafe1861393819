/* listing.c - see listing.h. Neither hidden files nor links are listed, and the walk has bounds. */
#include "listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 1000u   /* files that are listed; others can be read all the same */
#define LOOK_MAX 100000u /* entries looked at */
#define DEPTH_MAX 16u

typedef struct walk {
  file_list *list;
  const resource_config *config;
  int folder;
  void (*see)(void *user, const char *path);
  void *user;
} walk;

bool listing_includes(const resource_config *config, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!config->include) return true;
  for (size_t i = 0; config->include[i]; i++)
    if (fnmatch(config->include[i], name, FNM_PERIOD) == 0) return true;
  return false;
}

static bool take_file(walk *self, const char *path, const struct stat *about) {
  file_list *list = self->list;
  if (!listing_includes(self->config, path) || !idem__utf8_valid(path, strlen(path))) return true;
  char *copy = strdup(path);
  if (!copy) return false;
  list->files[list->count++] = (listed_file){.path = copy, .stamp = stamp_of(about)};
  return true;
}

static bool walk_folder(walk *self, const char *path, unsigned depth);

static bool walk_entry(walk *self, const char *path, const struct dirent *entry, unsigned depth) {
  char inner[PATH_MAX];
  struct stat about;
  int len = snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "/" : "", entry->d_name);
  if (entry->d_name[0] == '.' || len >= (int)sizeof inner) return true;
  if (self->list->count == LIST_MAX || ++self->list->looked > LOOK_MAX) return true;
  if (fstatat(self->folder, inner, &about, AT_SYMLINK_NOFOLLOW) != 0) return true;
  if (S_ISREG(about.st_mode)) return take_file(self, inner, &about);
  return !S_ISDIR(about.st_mode) || depth == DEPTH_MAX || walk_folder(self, inner, depth + 1);
}

static bool walk_folder(walk *self, const char *path, unsigned depth) {
  struct dirent **entries = NULL;
  bool fine = true;
  int fd =
      openat(self->folder, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0 && self->see) self->see(self->user, path);
  int count = fd < 0 ? -1 : scandirat(fd, ".", &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    fine = fine && walk_entry(self, path, entries[i], depth);
    free(entries[i]);
  }
  free(entries);
  if (fd >= 0) close(fd);
  return fine;
}

static int by_path(const void *one, const void *other) {
  const listed_file *left = one, *right = other;
  return strcmp(left->path, right->path);
}

bool listing_read(file_list *self, const resource_config *config, int folder,
                  void (*see)(void *user, const char *path), void *user) {
  *self = (file_list){.files = calloc(LIST_MAX, sizeof *self->files)};
  walk files = {.list = self, .config = config, .folder = folder, .see = see, .user = user};
  if (!self->files || !walk_folder(&files, "", 0)) return false;
  qsort(self->files, self->count, sizeof *self->files, by_path);
  return true;
}

void listing_free(file_list *self) {
  for (size_t i = 0; i < self->count; i++) free(self->files[i].path);
  free(self->files);
  *self = (file_list){.files = NULL};
}
