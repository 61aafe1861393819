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

#define LIST_MAX 1000u  /* files that are listed; others can be read all the same */
#define LOOK_MAX 20000u /* entries read, of all folders together */
#define DEPTH_MAX 16u

typedef struct walk {
  file_list *list;
  const resource_config *config;
  int folder;
  hidden_moment hidden;
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
  if (!listing_includes(self->config, path) || !idem_utf8_valid(path, strlen(path)) ||
      hidden_is(&self->hidden, about, NULL))
    return true;
  char *copy = strdup(path);
  if (!copy) return false;
  list->files[list->count++] = (listed_file){.path = copy, .stamp = stamp_of(about)};
  return true;
}

static bool walk_folder(walk *self, const char *path, unsigned depth);

static bool walk_entry(walk *self, const char *path, const char *name, unsigned depth) {
  char inner[PATH_MAX];
  struct stat about;
  int len = snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "/" : "", name);
  if (len >= (int)sizeof inner || self->list->count == LIST_MAX) return true;
  if (fstatat(self->folder, inner, &about, AT_SYMLINK_NOFOLLOW) != 0) return true;
  if (S_ISREG(about.st_mode)) return take_file(self, inner, &about);
  return !S_ISDIR(about.st_mode) || depth == DEPTH_MAX || walk_folder(self, inner, depth + 1);
}

/* The names in one folder, without hidden ones, and no more of them than may still be looked at: a
 * folder of a million must not stop the loop. */
typedef struct name_list {
  char **names;
  size_t count;
  size_t capacity;
} name_list;

static bool add_name(name_list *self, const char *name) {
  if (self->count == self->capacity) {
    size_t wanted = self->capacity ? self->capacity * 2 : 64;
    char **names = realloc(self->names, wanted * sizeof *names);
    if (!names) return false;
    self->names = names;
    self->capacity = wanted;
  }
  self->names[self->count] = strdup(name);
  return self->names[self->count] && ++self->count;
}

static bool read_names(walk *self, DIR *folder, name_list *names) {
  const struct dirent *entry;
  while (self->list->looked < LOOK_MAX && (entry = readdir(folder))) {
    self->list->looked++;
    if (entry->d_name[0] != '.' && !add_name(names, entry->d_name)) return false;
  }
  return true;
}

static int by_name(const void *one, const void *other) {
  return strcmp(*(char *const *)one, *(char *const *)other);
}

static bool walk_names(walk *self, const char *path, name_list *names, unsigned depth) {
  bool fine = true;
  if (names->count) qsort(names->names, names->count, sizeof *names->names, by_name);
  for (size_t i = 0; i < names->count; i++) {
    fine = fine && walk_entry(self, path, names->names[i], depth);
    free(names->names[i]);
  }
  free(names->names);
  return fine;
}

static bool walk_folder(walk *self, const char *path, unsigned depth) {
  name_list names = {.names = NULL};
  int fd =
      openat(self->folder, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (!folder) {
    if (fd >= 0) close(fd);
    return true;
  }
  if (self->see) self->see(self->user, path);
  bool fine = read_names(self, folder, &names);
  closedir(folder);
  return walk_names(self, path, &names, depth) && fine;
}

static int by_path(const void *one, const void *other) {
  const listed_file *left = one, *right = other;
  return strcmp(left->path, right->path);
}

bool listing_read(file_list *self, const resource_config *config, int folder,
                  const hidden_files *hidden, void (*see)(void *user, const char *path),
                  void *user) {
  *self = (file_list){.files = calloc(LIST_MAX, sizeof *self->files)};
  walk files = {.list = self,
                .config = config,
                .folder = folder,
                .hidden = hidden_look(hidden),
                .see = see,
                .user = user};
  bool whole = self->files && walk_folder(&files, "", 0);
  hidden_moment_free(&files.hidden);
  if (!whole) return false;
  qsort(self->files, self->count, sizeof *self->files, by_path);
  return true;
}

void listing_free(file_list *self) {
  for (size_t i = 0; i < self->count; i++) free(self->files[i].path);
  free(self->files);
  *self = (file_list){.files = NULL};
}
