/* hidden.c - see hidden.h. A file that appears beside a hidden one is readable from the next call on: before
 * each, the folders' times of change are compared. */
#include "hidden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JUST_NOW_NS 50000000 /* a clock's tick and more: what changes again in it keeps its time */

/* -------------------------------------------------------------------------- making */

static bool add(hidden_files *self, const char *path) {
  char **paths = realloc(self->paths, (self->count + 1) * sizeof *paths);
  if (!paths) return false;
  self->paths = paths;
  self->paths[self->count] = realpath(path, NULL);
  self->count += self->paths[self->count] != NULL; /* what is gone needs no hiding */
  return true;
}

bool hidden_init(hidden_files *self, const serve_config *config, const char *token_file) {
  *self = (hidden_files){.count = 0};
  for (const found_program *one = config->secret_files; one; one = one->next)
    if (!add(self, one->path)) return false;
  return !token_file || add(self, token_file);
}

static void forget_folders(hidden_files *self) {
  for (size_t i = 0; i < self->listed_count; i++) free(self->listed[i].path);
  self->listed_count = 0;
}

void hidden_deinit(hidden_files *self) {
  for (size_t i = 0; i < self->count; i++) free(self->paths[i]);
  free(self->paths);
  forget_folders(self);
}

/* -------------------------------------------------------------------------- asking */

bool hidden_in(const hidden_files *self, const char *real) {
  size_t len = strlen(real);
  while (len && real[len - 1] == '/') len--;
  for (size_t i = 0; i < self->count; i++)
    if (strncmp(self->paths[i], real, len) == 0 && self->paths[i][len] == '/') return true;
  return false;
}

static bool is_hidden(const hidden_files *self, const char *real) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->paths[i], real) == 0) return true;
  return false;
}

/* ------------------------------------------------------------------------- listing */

/* One that changed just now may change again without a trace: it is looked at once more. */
static bool remember(hidden_files *self, const char *path, const struct stat *about) {
  struct timespec now;
  for (size_t i = 0; i < self->listed_count; i++)
    if (strcmp(self->listed[i].path, path) == 0) return true;
  if (self->listed_count == HIDDEN_FOLDERS) return false;
  listed_folder *made = &self->listed[self->listed_count];
  *made = (listed_folder){strdup(path), about->st_mtim, about->st_dev, about->st_ino};
  if (!made->path) return false;
  self->listed_count++;
  clock_gettime(CLOCK_REALTIME, &now);
  long long age =
      (now.tv_sec - about->st_mtim.tv_sec) * 1000000000LL + (now.tv_nsec - about->st_mtim.tv_nsec);
  if (age < JUST_NOW_NS) made->changed = (struct timespec){0, 0};
  return true;
}

typedef struct passing {
  hidden_files *hidden;
  hidden_allow_fn allow;
  void *user;
  size_t names;
} passing;

static bool pass_folder(passing *self, const char *real);

/* Links lead elsewhere: what they lead to has its own rules. */
static bool pass_entry(passing *self, int folder, const char *real, const char *name) {
  char path[PATH_MAX];
  struct stat about;
  if (++self->names > HIDDEN_BESIDE ||
      snprintf(path, sizeof path, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) >=
          (int)sizeof path) {
    errno = E2BIG;
    return false;
  }
  if (is_hidden(self->hidden, path)) return true;
  if (hidden_in(self->hidden, path)) return pass_folder(self, path);
  int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return true; /* it went meanwhile */
  bool fine = fstat(fd, &about) != 0 || S_ISLNK(about.st_mode) || self->allow(self->user, fd, true);
  close(fd);
  return fine;
}

static bool pass_names(passing *self, DIR *entries, const char *real) {
  const struct dirent *entry;
  while ((entry = readdir(entries)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
        !pass_entry(self, dirfd(entries), real, entry->d_name))
      return false;
  return true;
}

static bool pass_folder(passing *self, const char *real) {
  struct stat about;
  DIR *entries = opendir(real);
  if (!entries) return errno == ENOENT || errno == EACCES; /* then it is nobody's to read */
  bool fine = fstat(dirfd(entries), &about) == 0 && remember(self->hidden, real, &about);
  if (!fine) errno = E2BIG;
  fine = fine && self->allow(self->user, dirfd(entries), false) && pass_names(self, entries, real);
  int why = errno;
  closedir(entries);
  errno = why;
  return fine;
}

bool hidden_pass_by(hidden_files *self, const char *real, hidden_allow_fn allow, void *user) {
  passing one = {.hidden = self, .allow = allow, .user = user};
  return pass_folder(&one, real);
}

/* ------------------------------------------------------------------------ changing */

static bool has_changed(const listed_folder *self) {
  struct stat about;
  return stat(self->path, &about) != 0 || about.st_dev != self->device ||
         about.st_ino != self->number || about.st_mtim.tv_sec != self->changed.tv_sec ||
         about.st_mtim.tv_nsec != self->changed.tv_nsec;
}

bool hidden_out_of_date(hidden_files *self) {
  for (size_t i = 0; i < self->listed_count; i++) {
    if (!has_changed(&self->listed[i])) continue;
    forget_folders(self);
    return true;
  }
  return false;
}
