/* scratch.c - see scratch.h. What is in a public folder may have been put there by others once a cleaner
 * took ours, so a folder is opened first and looked at then. Programs leave trees deeper than any path and
 * folders that nobody may look into: removing moves what is deep up to the top, level by level, and gives
 * folders their rights back. */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TO_NAME (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define TO_READ (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NAMES_TRIED 64

/* ------------------------------------------------------------------------ opening */

/* Also where nobody may open it to read. */
static void give_rights(int named) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", named);
  chmod(path, S_IRWXU);
}

/* -1 and EPERM: it is somebody else's. Programs can change modes, so that of ours may have changed. */
static int open_own(int at, const char *path) {
  struct stat about;
  int fd = openat(at, path, TO_NAME);
  if (fd < 0) return fd;
  if (fstat(fd, &about) != 0 || about.st_uid != geteuid()) {
    close(fd);
    errno = EPERM;
    return -1;
  }
  if ((about.st_mode & 0777) != S_IRWXU) give_rights(fd);
  return fd;
}

static int make_and_open(int at, const char *path) {
  int fd = open_own(at, path);
  if (fd >= 0 || errno != ENOENT) return fd;
  return mkdirat(at, path, S_IRWXU) == 0 || errno == EEXIST ? open_own(at, path) : -1;
}

void scratch_make(scratch_folder *self) {
  const char *folder = getenv("TMPDIR");
  snprintf(self->path, sizeof self->path, "%s/idem-XXXXXX",
           folder && *folder == '/' && strlen(folder) < 40 ? folder : "/tmp");
  if (!mkdtemp(self->path)) self->path[0] = 0;
  self->moves++;
}

int scratch_open(scratch_folder *self) {
  int fd = self->path[0] ? make_and_open(AT_FDCWD, self->path) : -1;
  if (fd >= 0) return fd;
  scratch_make(self);
  return self->path[0] ? open_own(AT_FDCWD, self->path) : -1;
}

/* ----------------------------------------------------------------------- removing */

/* True: it is gone. */
static bool unlink_at(int folder, const char *name) {
  return unlinkat(folder, name, 0) == 0 || unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

static void open_up(int folder, const char *name) {
  int fd = openat(folder, name, TO_NAME);
  if (fd < 0) return;
  give_rights(fd);
  close(fd);
}

/* Under a name that is free there. A folder that moves needs its rights, too. */
static bool move_up(int from, const char *name, int top) {
  static unsigned long next;
  char fresh[32];
  open_up(from, name);
  for (int tries = 0; tries < NAMES_TRIED; tries++) {
    snprintf(fresh, sizeof fresh, "%lx", next++);
    if (renameat(from, name, top, fresh) == 0) return true;
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return false;
  }
  return false;
}

static bool is_entry(const struct dirent *entry) {
  return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static DIR *list(int at, const char *name) {
  int fd = openat(at, name, TO_READ);
  DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
  if (fd >= 0 && !entries) close(fd);
  return entries;
}

int scratch_open_inside(int folder, const char *name) {
  int fd = make_and_open(folder, name);
  if (fd >= 0) return fd;
  bool gone = errno == EPERM ? move_up(folder, name, folder) : unlinkat(folder, name, 0) == 0;
  return gone ? make_and_open(folder, name) : -1;
}

/* True: something of it went or moved. */
static bool empty(int top, const char *name) {
  bool progress = false;
  struct dirent *entry;
  open_up(top, name);
  DIR *entries = list(top, name);
  while (entries && (entry = readdir(entries))) {
    if (!is_entry(entry)) continue;
    int folder = dirfd(entries);
    progress = unlink_at(folder, entry->d_name) || move_up(folder, entry->d_name, top) || progress;
  }
  if (entries) closedir(entries);
  return unlinkat(top, name, AT_REMOVEDIR) == 0 || progress;
}

static bool remove_level(int top) {
  bool progress = false;
  struct dirent *entry;
  DIR *entries = list(top, ".");
  while (entries && (entry = readdir(entries)))
    if (is_entry(entry))
      progress = unlink_at(top, entry->d_name) || empty(top, entry->d_name) || progress;
  if (entries) closedir(entries);
  return progress;
}

void scratch_remove(const char *path) {
  int top = open_own(AT_FDCWD, path);
  if (top < 0) return;
  while (remove_level(top)) continue;
  close(top);
  rmdir(path);
}
