/* hidden.c - see hidden.h. A file that appears beside a hidden one is readable from the next call on: before
 * each, the folders' times of change are compared. */
#include "hidden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JUST_NOW_NS 50000000 /* a clock's tick and more: what changes again in it keeps its time */

/* What only root may read of what every program may. */
static const char *const system_files[] = {
    "/etc/shadow",      "/etc/shadow-",           "/etc/gshadow",          "/etc/gshadow-",
    "/etc/sudoers",     "/etc/sudoers.d",         "/etc/security/opasswd", "/etc/krb5.keytab",
    "/etc/ssl/private", "/etc/ssh/ssh_host_*_key"};

/* -------------------------------------------------------------------------- making */

static char *absolute(const char *path) {
  char here[PATH_MAX], whole[PATH_MAX];
  if (path[0] == '/') return strdup(path);
  if (!getcwd(here, sizeof here) ||
      snprintf(whole, sizeof whole, "%s/%s", here, path) >= (int)sizeof whole)
    return NULL;
  return strdup(whole);
}

/* What is not there may come: it keeps its name, in the folder that this really is. */
static char *resolve(const char *name) {
  char *real = realpath(name, NULL), *made = NULL;
  const char *slash = strrchr(name, '/');
  if (real || !slash || slash == name) return real ? real : strdup(name);
  char *folder = strndup(name, (size_t)(slash - name));
  char *real_folder = folder ? realpath(folder, NULL) : NULL;
  if (folder && asprintf(&made, "%s%s", real_folder ? real_folder : folder, slash) < 0) made = NULL;
  free(real_folder);
  free(folder);
  return made;
}

static bool add(hidden_files *self, const char *path) {
  char **names = realloc(self->names, (self->count + 1) * sizeof *names);
  if (names) self->names = names;
  char **paths = realloc(self->paths, (self->count + 1) * sizeof *paths);
  if (paths) self->paths = paths;
  if (!names || !paths || !(names[self->count] = absolute(path))) return false;
  paths[self->count] = resolve(names[self->count]);
  if (!paths[self->count]) {
    free(names[self->count]);
    return false;
  }
  self->count++;
  return true;
}

/* Whoever cannot read them has programs that cannot either. */
static bool add_system(hidden_files *self) {
  glob_t found = {.gl_pathc = 0};
  bool fine = true;
  for (size_t i = 0; i < sizeof system_files / sizeof *system_files; i++)
    glob(system_files[i], i ? GLOB_APPEND : 0, NULL, &found);
  for (size_t i = 0; fine && i < found.gl_pathc; i++)
    if (faccessat(AT_FDCWD, found.gl_pathv[i], R_OK, AT_EACCESS) == 0)
      fine = add(self, found.gl_pathv[i]);
  globfree(&found);
  return fine;
}

bool hidden_init(hidden_files *self, const serve_config *config, const char *const *own_files) {
  *self = (hidden_files){.count = 0};
  for (const found_program *one = config->secret_files; one; one = one->next)
    if (!add(self, one->path)) return false;
  for (size_t i = 0; own_files && own_files[i]; i++)
    if (!add(self, own_files[i])) return false;
  self->named = self->count;
  return add_system(self);
}

bool hidden_give_up(hidden_files *self) {
  if (self->count == self->named) return false;
  while (self->count > self->named) {
    free(self->paths[--self->count]);
    free(self->names[self->count]);
  }
  return self->gave_up = true;
}

static void forget_folders(hidden_files *self) {
  for (size_t i = 0; i < self->listed_count; i++) free(self->listed[i].path);
  self->listed_count = 0;
}

void hidden_deinit(hidden_files *self) {
  for (size_t i = 0; i < self->count; i++) {
    free(self->names[i]);
    free(self->paths[i]);
  }
  free(self->names);
  free(self->paths);
  forget_folders(self);
}

/* -------------------------------------------------------------------------- asking */

bool hidden_same(const hidden_files *self, const hidden_files *other) {
  if (self->named != other->named) return false;
  for (size_t i = 0; i < self->named; i++)
    if (strcmp(self->names[i], other->names[i]) != 0) return false;
  return true;
}

static bool is_in(const char *path, const char *folder, size_t len) {
  return strncmp(path, folder, len) == 0 && path[len] == '/';
}

bool hidden_in(const hidden_files *self, const char *real, bool writable) {
  size_t len = strlen(real), count = writable ? self->named : self->count;
  while (len && real[len - 1] == '/') len--;
  for (size_t i = 0; i < count; i++)
    if (is_in(self->paths[i], real, len)) return true;
  return false;
}

static bool is_hidden(const hidden_files *self, const char *real) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->paths[i], real) == 0) return true;
  return false;
}

/* By the names, which do not change while others look. */
hidden_moment hidden_look(const hidden_files *self) {
  struct stat about;
  hidden_moment now = {self, calloc(self->count + 1, sizeof *now.identities)};
  for (size_t i = 0; now.identities && i < self->count; i++)
    if (stat(self->names[i], &about) == 0)
      now.identities[i] = (file_identity){about.st_dev, about.st_ino};
  return now;
}

void hidden_moment_free(hidden_moment *self) { free(self->identities); }

bool hidden_is(const hidden_moment *self, const struct stat *about, const char *real) {
  const hidden_files *files = self->files;
  if (!self->identities) return true;
  for (size_t i = 0; i < files->count; i++) {
    const file_identity *one = &self->identities[i];
    if (one->number == about->st_ino && one->device == about->st_dev) return true;
    /* Of the system's some are folders. */
    if (real && i >= files->named && is_in(real, files->names[i], strlen(files->names[i])))
      return true;
  }
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

static bool take_fd(const passing *self, int fd, bool whole) {
  return !self->allow || self->allow(self->user, fd, whole);
}

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
  if (!self->allow && !hidden_in(self->hidden, path, false)) return true;
  int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return true; /* it went meanwhile */
  bool passed_over = fstat(fd, &about) != 0 || S_ISLNK(about.st_mode);
  bool inside = !passed_over && hidden_in(self->hidden, path, false);
  bool fine = passed_over || inside || take_fd(self, fd, true);
  close(fd);
  return inside ? pass_folder(self, path) : fine;
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
  fine = fine && take_fd(self, dirfd(entries), false) && pass_names(self, entries, real);
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

/* Whether one of those that were named is somewhere else. */
static bool have_moved(hidden_files *self) {
  bool moved = false;
  for (size_t i = 0; i < self->named; i++) {
    char *real = resolve(self->names[i]);
    if (real && strcmp(real, self->paths[i]) != 0) {
      char *old = self->paths[i];
      self->paths[i] = real;
      real = old;
      moved = true;
    }
    free(real);
  }
  return moved;
}

bool hidden_out_of_date(hidden_files *self) {
  if (have_moved(self)) {
    forget_folders(self);
    return true;
  }
  for (size_t i = 0; i < self->listed_count; i++) {
    if (!has_changed(&self->listed[i])) continue;
    forget_folders(self);
    return true;
  }
  return false;
}
